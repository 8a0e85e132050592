"""Runs jobs with aiokafka; see `tests/interop/jobs.py`."""

import asyncio
import json
import sys

import aiokafka


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def hexed(data):
    return None if data is None else data.hex()


async def produce(job):
    for codec, records in job["records"].items():
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=job["bootstrap"],
            client_id=job["name"],
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            **job["more"],
        )
        async with producer:
            sent = [
                await producer.send(
                    job["topics"][codec],
                    unhex(record["value"]),
                    key=unhex(record["key"]),
                    timestamp_ms=record["timestamp"],
                    headers=[(name, unhex(value)) for name, value in record["headers"]],
                )
                for record in records
            ]
            await asyncio.gather(*sent)
    return {}


async def consume(job):
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=job["bootstrap"], group_id=None, fetch_max_wait_ms=100
    )
    found = {topic: [] for topic in job["expect"]}
    missing = sum(job["expect"].values())
    async with consumer, asyncio.timeout(30):
        partitions = [aiokafka.TopicPartition(topic, 0) for topic in found]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while missing > 0:
            for partition, messages in (await consumer.getmany(timeout_ms=200)).items():
                missing -= len(messages)
                found[partition.topic] += [
                    {
                        "offset": message.offset,
                        "key": hexed(message.key),
                        "value": hexed(message.value),
                        "timestamp": message.timestamp,
                        "headers": [[name, hexed(value)] for name, value in message.headers],
                    }
                    for message in messages
                ]
    return found


async def run(jobs):
    return [await (produce if job["do"] == "produce" else consume)(job) for job in jobs]


if __name__ == "__main__":
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
