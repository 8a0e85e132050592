/*
 * Writes values with kafka-ts, and reads a topic as a member of a group:
 *
 *     {"bootstrap", "topic", "group", "values", "expect": how many messages are to be read}
 */
"use strict";

const fs = require("fs");
const { createKafkaClient, setLogger } = require("kafka-ts");

const READ_WITHIN_MS = 60_000;

async function main() {
  const job = JSON.parse(fs.readFileSync(0, "utf8"));
  setLogger({ debug() {}, info() {}, warn: console.error, error: console.error });
  const [host, port] = job.bootstrap.split(":");
  const kafka = createKafkaClient({
    clientId: "kafka-ts",
    bootstrapServers: [{ host, port: Number(port) }],
  });
  const producer = kafka.createProducer({});
  await producer.send(
    job.values.map((value) => ({ topic: job.topic, key: "key", value, headers: { by: "kafka-ts" } })),
  );
  await producer.close();
  const found = [];
  let all;
  const read = new Promise((resolve) => (all = resolve));
  const consumer = await kafka.startConsumer({
    groupId: job.group,
    topics: [job.topic],
    fromTimestamp: -2n,
    maxWaitMs: 100,
    onBatch: (messages) => {
      for (const { offset, key, value, headers } of messages)
        found.push({ offset: Number(offset), key, value, headers });
      if (found.length >= job.expect) all();
    },
  });
  await Promise.race([read, new Promise((resolve) => setTimeout(resolve, READ_WITHIN_MS).unref())]);
  await consumer.close();
  process.stdout.write(JSON.stringify(found));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
