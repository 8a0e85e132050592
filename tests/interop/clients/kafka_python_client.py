"""Runs jobs with whichever kafka-python is on the path; see `tests/interop/jobs.py`."""

import json
import sys
import time

import kafka


def settings(job):
    found = {"bootstrap_servers": job["bootstrap"], "client_id": job["name"]}
    if job["version"] is not None:
        found["api_version"] = tuple(job["version"])
    return found


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def produce(job):
    for codec, records in job["records"].items():
        compression = None if codec == "none" else codec
        producer = kafka.KafkaProducer(
            **settings(job), compression_type=compression, linger_ms=20, retries=5
        )
        sent = []
        for record in records:
            more = {}
            if job["headers"]:
                more["headers"] = [(name, unhex(value)) for name, value in record["headers"]]
            if job["timestamps"]:
                more["timestamp_ms"] = record["timestamp"]
            topic = job["topics"][codec]
            sent.append(
                producer.send(topic, unhex(record["value"]), key=unhex(record["key"]), **more)
            )
        producer.flush(30)
        for future in sent:
            future.get(30)
        producer.close()
    return {}


def consume(job):
    consumer = kafka.KafkaConsumer(
        **settings(job),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    partitions = [kafka.TopicPartition(topic, 0) for topic in job["expect"]]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    found = {topic: [] for topic in job["expect"]}
    missing = sum(job["expect"].values())
    deadline = time.monotonic() + 30
    while missing > 0 and time.monotonic() < deadline:
        for partition, messages in consumer.poll(200).items():
            for message in messages:
                missing -= 1
                headers = getattr(message, "headers", None) or []
                found[partition.topic].append(
                    {
                        "offset": message.offset,
                        "key": None if message.key is None else message.key.hex(),
                        "value": None if message.value is None else message.value.hex(),
                        "timestamp": message.timestamp,
                        "headers": [
                            [name, None if value is None else value.hex()]
                            for name, value in headers
                        ],
                    }
                )
    consumer.close()
    return found


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    results = [produce(job) if job["do"] == "produce" else consume(job) for job in jobs]
    json.dump(results, sys.stdout)
