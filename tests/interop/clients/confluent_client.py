"""Runs jobs with confluent-kafka (librdkafka); see `tests/interop/jobs.py`."""

import json
import sys
import time

import confluent_kafka


def settings(job):
    found = {"bootstrap.servers": job["bootstrap"], "client.id": job["name"]}
    if job["version"] is not None:
        found["broker.version.fallback"] = job["version"]
        found["api.version.request"] = False
    return found


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def produce(job):
    failures = []

    def delivered(error, message):
        if error is not None:
            failures.append(str(error))

    for codec, records in job["records"].items():
        producer = confluent_kafka.Producer(
            settings(job) | {"compression.codec": codec, "linger.ms": 20, **job["more"]}
        )
        for record in records:
            more = {}
            if job["headers"]:
                more["headers"] = [(name, unhex(value)) for name, value in record["headers"]]
            if job["timestamps"]:
                more["timestamp"] = record["timestamp"]
            topic = job["topics"][codec]
            value, key = unhex(record["value"]), unhex(record["key"])
            producer.produce(topic, value, key, 0, on_delivery=delivered, **more)
        if producer.flush(30):
            failures.append("not everything was delivered")
    return {"failures": failures} if failures else {}


def consume(job):
    consumer = confluent_kafka.Consumer(
        settings(job)
        | {
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
        }
    )
    start = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, start) for topic in job["expect"]])
    found = {topic: [] for topic in job["expect"]}
    missing = sum(job["expect"].values())
    deadline = time.monotonic() + 30
    while missing > 0 and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            found.setdefault("errors", []).append(str(message.error()))
            continue
        missing -= 1
        key, value, kind = message.key(), message.value(), message.timestamp()
        found[message.topic()].append(
            {
                "offset": message.offset(),
                "key": None if key is None else key.hex(),
                "value": None if value is None else value.hex(),
                "timestamp": kind[1] if kind[0] else None,
                "headers": [
                    [name, None if held is None else held.hex()]
                    for name, held in message.headers() or []
                ],
            }
        )
    consumer.close()
    return found


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    results = [produce(job) if job["do"] == "produce" else consume(job) for job in jobs]
    json.dump(results, sys.stdout)
