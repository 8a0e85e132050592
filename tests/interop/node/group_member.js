/*
 * One member of a group as a process that reports what happens to it, as group_member.py does.
 *
 *     node group_member.js LIBRARY ADDRESS GROUP TOPIC STRATEGY
 */
"use strict";

const [library, address, group, topic, strategy] = process.argv.slice(2);
const SESSION_MS = Number(process.env.GROUP_MEMBER_SESSION_MS || 4000);
const HEARTBEAT_MS = 200;

function report(event, what) {
  // the system's monotonic clock, which all processes share
  const at = Number(process.hrtime.bigint()) / 1e9;
  process.stdout.write(JSON.stringify({ at, event, ...what }) + "\n");
}

function whenToldToLeave(leave) {
  process.stdin.resume();
  process.stdin.on("end", async () => {
    report("leaving");
    await leave();
    process.exit(0);
  });
}

async function runKafkajs() {
  const { Kafka, PartitionAssigners, logLevel } = require("kafkajs");
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: SESSION_MS,
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: HEARTBEAT_MS, // no heartbeat is sent while a fetch waits
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 50 },
    // Its own strategy is called by a name that no other library knows.
    partitionAssigners: [(of) => ({ ...PartitionAssigners.roundRobin(of), name: strategy })],
  });
  let held = [];
  const revoked = () => {
    report("revoked", { partitions: held });
    held = [];
  };
  consumer.on(consumer.events.REBALANCING, revoked);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    if (held.length) revoked();
    held = payload.memberAssignment[topic] || [];
    report("assigned", { partitions: held });
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 100,
    eachBatch: async ({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary }) => {
      const read = batch.messages.map((each) => [batch.partition, Number(each.offset)]);
      report("messages", { read });
      resolveOffset(batch.lastOffset());
      await commitOffsetsIfNecessary();
      await heartbeat();
    },
  });
  whenToldToLeave(() => consumer.disconnect());
}

function runKafkaNode() {
  const { ConsumerGroup } = require("kafka-node");
  const consumer = new ConsumerGroup(
    {
      kafkaHost: address,
      groupId: group,
      sessionTimeout: SESSION_MS,
      heartbeatInterval: HEARTBEAT_MS,
      protocol: [strategy],
      fromOffset: "earliest",
      autoCommitIntervalMs: 100,
      fetchMaxWaitMs: 100,
      retries: 50,
      retryMinTimeout: 100,
      retryFactor: 1.1,
    },
    [topic],
  );
  const partitions = () => consumer.topicPayloads.map((each) => Number(each.partition));
  consumer.on("rebalancing", () => report("revoked", { partitions: partitions() }));
  consumer.on("rebalanced", () => report("assigned", { partitions: partitions() }));
  consumer.on("message", (each) => report("messages", { read: [[each.partition, each.offset]] }));
  consumer.on("error", (error) => process.stderr.write(`${error.stack || error}\n`));
  whenToldToLeave(() => new Promise((done) => consumer.close(true, done)));
}

if (library === "kafkajs") runKafkajs();
else runKafkaNode();
