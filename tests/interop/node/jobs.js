/*
 * Runs jobs with kafkajs or kafka-node; see tests/interop/jobs.py.
 *
 *     node jobs.js LIBRARY < jobs > results
 */
"use strict";

const fs = require("fs");

const READ_WITHIN_MS = 30_000;

const unhex = (text) => (text === null ? null : Buffer.from(text, "hex"));
const hex = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString("hex"));

/** Waits until a reader has found all that a job expects, or time is up. */
function untilFound(job, start) {
  const found = Object.fromEntries(Object.keys(job.expect).map((topic) => [topic, []]));
  let missing = Object.values(job.expect).reduce((sum, count) => sum + count, 0);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(found), READ_WITHIN_MS);
    start(
      (topic, record) => {
        found[topic].push(record);
        missing -= 1;
        if (missing === 0) {
          clearTimeout(timer);
          resolve(found);
        }
      },
      (error) => {
        (found.errors ||= []).push(String(error));
      },
    ).catch(reject);
  });
}

// --- kafkajs

function kafkajs() {
  const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
  CompressionCodecs[CompressionTypes.Snappy] = require("kafkajs-snappy");
  const codecs = { none: "None", gzip: "GZIP", snappy: "Snappy" };
  const open = (job) =>
    new Kafka({ brokers: [job.bootstrap], clientId: job.name, logLevel: logLevel.ERROR });

  function headersOf(record) {
    const headers = {};
    for (const [name, value] of record.headers) (headers[name] ||= []).push(unhex(value));
    return headers;
  }

  function pairsOf(headers) {
    return Object.entries(headers).flatMap(([name, values]) =>
      [values].flat().map((value) => [name, hex(value)]),
    );
  }

  return {
    async produce(job) {
      const producer = open(job).producer({ allowAutoTopicCreation: false });
      await producer.connect();
      for (const [codec, records] of Object.entries(job.records)) {
        const messages = records.map((record) => ({
          partition: 0,
          key: unhex(record.key),
          value: unhex(record.value),
          timestamp: String(record.timestamp),
          headers: headersOf(record),
        }));
        const compression = CompressionTypes[codecs[codec]];
        await producer.send({ topic: job.topics[codec], messages, compression });
      }
      await producer.disconnect();
      return {};
    },
    async consume(job) {
      const consumer = open(job).consumer({
        groupId: `${job.name}-${process.pid}`,
        maxWaitTimeInMs: 100,
      });
      const found = await untilFound(job, async (take, fail) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
        await consumer.connect();
        await consumer.subscribe({ topics: Object.keys(job.expect), fromBeginning: true });
        await consumer.run({
          autoCommit: false,
          eachMessage: async ({ topic, message }) =>
            take(topic, {
              offset: Number(message.offset),
              key: hex(message.key),
              value: hex(message.value),
              timestamp: Number(message.timestamp),
              headers: pairsOf(message.headers || {}),
            }),
        });
      });
      await consumer.disconnect();
      return found;
    },
  };
}

// --- kafka-node

function kafkaNode() {
  const { ConsumerGroup, HighLevelProducer, KafkaClient, KeyedMessage } = require("kafka-node");
  const codecs = { none: 0, gzip: 1 };

  return {
    async produce(job) {
      const client = new KafkaClient({ kafkaHost: job.bootstrap, clientId: job.name });
      const topics = Object.values(job.topics);
      const call = (method, ...given) =>
        new Promise((resolve, reject) =>
          method(...given, (error, answer) => (error ? reject(error) : resolve(answer))),
        );
      await new Promise((resolve) => client.once("ready", resolve));
      await call(client.refreshMetadata.bind(client), topics);
      const producer = new HighLevelProducer(client);
      for (const [codec, records] of Object.entries(job.records)) {
        const messages = records.map((record) => {
          const message = new KeyedMessage(unhex(record.key), unhex(record.value));
          message.timestamp = record.timestamp;
          return message;
        });
        const payload = { topic: job.topics[codec], messages, attributes: codecs[codec] };
        await call(producer.send.bind(producer), [payload]);
      }
      await call(client.close.bind(client));
      return {};
    },
    async consume(job) {
      const options = {
        kafkaHost: job.bootstrap,
        groupId: `${job.name}-${process.pid}`,
        fromOffset: "earliest",
        autoCommit: false,
        encoding: "buffer",
        keyEncoding: "buffer",
        fetchMaxWaitMs: 100,
      };
      const consumer = new ConsumerGroup(options, Object.keys(job.expect));
      const found = await untilFound(job, async (take, fail) => {
        consumer.on("error", fail);
        consumer.on("message", (message) =>
          take(message.topic, {
            offset: message.offset,
            key: hex(message.key),
            value: hex(message.value),
            timestamp: message.timestamp ? message.timestamp.getTime() : null,
            headers: [],
          }),
        );
      });
      await new Promise((resolve) => consumer.close(false, resolve));
      return found;
    },
  };
}

async function main() {
  const library = process.argv[2] === "kafkajs" ? kafkajs() : kafkaNode();
  const results = [];
  for (const job of JSON.parse(fs.readFileSync(0, "utf8"))) results.push(await library[job.do](job));
  process.stdout.write(JSON.stringify(results), () => process.exit(0));
}

main().catch((error) => {
  fs.writeSync(2, `${error.stack || error}\n`);
  process.exit(1);
});
