/*
 * Records there and back with a login or TLS, by kafkajs; see tests/interop/secured.py.
 *
 *     node secured.js < jobs
 */
"use strict";

const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const READ_WITHIN_MS = 30_000;

async function thereAndBack(job) {
  const settings = {
    brokers: job.bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    retry: { retries: 1, initialRetryTime: 50 },
  };
  if (job.ca) settings.ssl = { ca: [fs.readFileSync(job.ca, "utf8")] };
  if (job.token) {
    settings.sasl = { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: job.token }) };
  } else if (job.mechanism) {
    settings.sasl = {
      mechanism: job.mechanism.toLowerCase(),
      username: job.user,
      password: job.password,
    };
  }
  const kafka = new Kafka(settings);
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  await producer.send({ topic: job.topic, messages: [{ value: job.value }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: job.group, maxWaitTimeInMs: 200 });
  await consumer.connect();
  await consumer.subscribe({ topic: job.topic, fromBeginning: true });
  const read = [];
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, READ_WITHIN_MS);
    consumer
      .run({
        eachMessage: async ({ message }) => {
          read.push(message.value.toString());
          if (read.includes(job.value)) {
            clearTimeout(timer);
            resolve();
          }
        },
      })
      .catch(reject);
  });
  await consumer.disconnect();
  return { read };
}

async function all(jobs) {
  const results = [];
  for (const job of jobs) {
    results.push(await thereAndBack(job).catch((error) => ({ error: String(error) })));
  }
  console.log(JSON.stringify(results));
  process.exit(0);
}

all(JSON.parse(fs.readFileSync(0, "utf8")));
