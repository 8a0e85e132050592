/*
 * kafka-node's high-level consumer, which finds brokers and shares partitions through ZooKeeper, as a
 * process that reports as group_member.js does.
 *
 *     node zookeeper_member.js CONNECT GROUP TOPIC
 */
"use strict";

const { Client, HighLevelConsumer } = require("kafka-node-2");

const [connect, group, topic] = process.argv.slice(2);
const id = `${group}_node-${process.pid}`;

function report(event, what) {
  const at = Number(process.hrtime.bigint()) / 1e9;
  process.stdout.write(JSON.stringify({ at, event, ...what }) + "\n");
}

const client = new Client(connect, id, { sessionTimeout: 4000 });
const consumer = new HighLevelConsumer(client, [{ topic }], {
  groupId: group,
  id,
  autoCommitIntervalMs: 100,
  fetchMaxWaitMs: 100,
});
const partitions = () => consumer.topicPayloads.map((each) => Number(each.partition));
for (const source of [client, consumer]) {
  source.on("error", (error) => process.stderr.write(`${error.stack || error}\n`));
}
consumer.on("rebalancing", () => report("revoked", { partitions: partitions() }));
consumer.on("rebalanced", () => report("assigned", { partitions: partitions() }));
consumer.on("message", (each) => report("messages", { read: [[each.partition, each.offset]] }));
process.stdin.resume();
process.stdin.on("end", () => {
  report("leaving");
  consumer.close(true, () => process.exit(0));
});
