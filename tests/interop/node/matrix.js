/*
 * Writes values with kafkajs and reads them back, as settings of security say:
 *
 *     [{"bootstrap", "topic", "values", "settings": {"ssl": {"ca", "key", "cert"}, "sasl": ...}}]
 */
"use strict";

const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const READ_WITHIN_MS = 40_000;

async function thereAndBack(job) {
  const kafka = new Kafka({
    brokers: job.bootstrap.split(","),
    clientId: "secured",
    logLevel: logLevel.ERROR,
    ...job.settings,
  });
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  await producer.send({ topic: job.topic, messages: job.values.map((value) => ({ value })) });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `${job.topic}-group`, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topics: [job.topic], fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    setTimeout(resolve, READ_WITHIN_MS).unref();
    consumer
      .run({
        eachMessage: async ({ message }) => {
          found.push(message.value.toString());
          if (found.length === job.values.length) resolve();
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return found;
}

async function main() {
  const read = [];
  for (const job of JSON.parse(fs.readFileSync(0, "utf8"))) read.push(await thereAndBack(job));
  process.stdout.write(JSON.stringify(read));
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
