"""Writes values and reads them back as settings of security say: with the Python libraries.

[{"library", "bootstrap", "topic", "values", "settings"}] on standard input -> what each job read
"""

import asyncio
import json
import ssl
import sys
import time

READ_WITHIN_S = 40


def confluent(job):
    import confluent_kafka

    settings = {"bootstrap.servers": job["bootstrap"], **job["settings"]}
    producer = confluent_kafka.Producer(settings)
    for value in job["values"]:
        producer.produce(job["topic"], value.encode())
    assert producer.flush(READ_WITHIN_S) == 0
    consumer = confluent_kafka.Consumer(
        settings | {"group.id": f"{job['topic']}-group", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([job["topic"]])
    found = []
    deadline = time.monotonic() + READ_WITHIN_S
    while len(found) < len(job["values"]) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value().decode())
    consumer.close()
    return found


def kafka_python(job):
    import kafka

    settings = {"bootstrap_servers": job["bootstrap"], **job["settings"]}
    producer = kafka.KafkaProducer(**settings)
    for future in [producer.send(job["topic"], value.encode()) for value in job["values"]]:
        future.get(READ_WITHIN_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        job["topic"],
        **settings,
        group_id=f"{job['topic']}-group",
        auto_offset_reset="earliest",
        consumer_timeout_ms=READ_WITHIN_S * 1000,
    )
    found = []
    for message in consumer:
        found.append(message.value.decode())
        if len(found) == len(job["values"]):
            break
    consumer.close()
    return found


def aiokafka(job):
    return asyncio.run(_aiokafka(job))


async def _aiokafka(job):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    settings = dict(job["settings"])
    authorities = settings.pop("ssl_cafile", None)
    key = settings.pop("ssl_certfile", None)
    settings.pop("ssl_keyfile", None)
    if authorities is not None:
        context = ssl.create_default_context(cafile=authorities)
        if key is not None:
            context.load_cert_chain(key)
        settings["ssl_context"] = context
    settings["bootstrap_servers"] = job["bootstrap"]
    async with AIOKafkaProducer(**settings) as producer:
        for value in job["values"]:
            await producer.send_and_wait(job["topic"], value.encode())
    consumer = AIOKafkaConsumer(
        job["topic"],
        **settings,
        group_id=f"{job['topic']}-group",
        auto_offset_reset="earliest",
    )
    found = []
    async with consumer, asyncio.timeout(READ_WITHIN_S):
        async for message in consumer:
            found.append(message.value.decode())
            if len(found) == len(job["values"]):
                break
    return found


RUN = {
    "confluent": confluent,
    "kafka-python": kafka_python,
    "kafka-python-2.0.2": kafka_python,
    "aiokafka": aiokafka,
}

if __name__ == "__main__":
    json.dump([RUN[job["library"]](job) for job in json.load(sys.stdin)], sys.stdout)
