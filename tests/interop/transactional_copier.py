"""Copies a topic in transactions until it is killed, with a client of choice.

    python -m tests.interop.transactional_copier CLIENT BROKERS NAME SOURCE TARGET PARTITIONS MS

NAME is the transactional id and the group, MS the time-out of a transaction. Any error ends it;
whoever runs it starts another one.
"""

import asyncio
import sys
import threading

BATCH = 10


def ours(brokers: str, name: str, source: str, target: str, partitions: int, timeout_ms: int):
    from examples.exactly_once_topics import Options, copy

    options = Options(
        brokers=brokers,
        source=source,
        target=target,
        name=name,
        batch=BATCH,
        partitions=partitions,
        timeout_ms=timeout_ms,
        transform=bytes,
    )
    copy(options, threading.Event())


def confluent(brokers: str, name: str, source: str, target: str, partitions: int, timeout_ms: int):
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer.init_transactions(60)
    inputs = [TopicPartition(source, number) for number in range(partitions)]
    begin = consumer.committed(inputs, 60)
    for each in begin:
        each.offset = max(each.offset, 0)
    consumer.assign(begin)
    while True:
        taken = consumer.consume(BATCH, timeout=0.2)
        if not taken:
            continue
        producer.begin_transaction()
        for message in taken:
            if message.error():
                raise KafkaException(message.error())
            producer.produce(target, message.value(), partition=message.partition())
        done = [each for each in consumer.position(inputs) if each.offset >= 0]
        producer.send_offsets_to_transaction(done, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)


async def _aiokafka(
    brokers: str, name: str, source: str, target: str, partitions: int, timeout_ms: int
):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(
        bootstrap_servers=brokers, transactional_id=name, transaction_timeout_ms=timeout_ms
    )
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers,
        group_id=name,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with producer, consumer:
        inputs = [TopicPartition(source, number) for number in range(partitions)]
        consumer.assign(inputs)
        for each in inputs:
            consumer.seek(each, await consumer.committed(each) or 0)
        while True:
            taken = await consumer.getmany(timeout_ms=200, max_records=BATCH)
            if not any(taken.values()):
                continue
            async with producer.transaction():
                for key, messages in taken.items():
                    for message in messages:
                        await producer.send(target, message.value, partition=key.partition)
                done = {key: messages[-1].offset + 1 for key, messages in taken.items() if messages}
                await producer.send_offsets_to_transaction(done, name)


def aiokafka(brokers: str, name: str, source: str, target: str, partitions: int, timeout_ms: int):
    asyncio.run(_aiokafka(brokers, name, source, target, partitions, timeout_ms))


def main() -> None:
    client, brokers, name, source, target, partitions, timeout_ms = sys.argv[1:]
    copy = {"ours": ours, "confluent": confluent, "aiokafka": aiokafka}[client]
    copy(brokers, name, source, target, int(partitions), int(timeout_ms))


if __name__ == "__main__":
    main()
