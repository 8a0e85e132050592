"""Messages per second of one consumer reading one topic: zkbroker, confluent-kafka, kafka-python.

    python -m bench.consumer [--messages 1000000] [--size 100] [--rounds 5]

One broker, one partition, all readers in processes of their own, one after the other, round by
round; a reader's clock runs from its first message to its last. A ratio is taken within each round,
so that both sides of it run under the same conditions; medians and the range of the rounds are
printed. CPU is that of the reader's process, with all of its threads.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from typing import Any

from bench.figures import Found, of_clients, options, publish
from tests.support.producing import TestProducer
from zkbroker.testing import LocalCluster

BATCH_BYTES = 16_384


def read_zkbroker(target: dict[str, Any], runtime: str = "threads") -> tuple[float, float]:
    from zkbroker.config.consumer import ConsumerConfig
    from zkbroker.consumer import Consumer

    config = ConsumerConfig(
        group_id=f"bench-{uuid.uuid4().hex[:8]}",
        zookeeper_connect=target["zookeeper"],
        auto_offset_reset="smallest",
    )
    with Consumer.create(config, runtime=runtime) as connector:
        topic = target["topic"]
        stream = iter(connector.create_message_streams({topic: 1})[topic][0])
        next(stream)
        started, cpu = time.perf_counter(), time.process_time()
        left = target["messages"] - 1
        for _ in stream:
            left -= 1
            if not left:
                break
        return time.perf_counter() - started, time.process_time() - cpu


def read_zkbroker_gevent(target: dict[str, Any]) -> tuple[float, float]:
    return read_zkbroker(target, "gevent")


def read_group_poll(target: dict[str, Any], runtime: str = "threads") -> tuple[float, float]:
    with group_consumer(target, runtime) as consumer:
        left = target["messages"]
        while left == target["messages"]:
            left -= len(consumer.poll(1.0, 1))
        started, cpu = time.perf_counter(), time.process_time()
        while left > 0:
            for _ in consumer.poll(1.0):
                left -= 1
        return time.perf_counter() - started, time.process_time() - cpu


def read_group_iterate(target: dict[str, Any]) -> tuple[float, float]:
    with group_consumer(target, "threads") as consumer:
        messages = iter(consumer)
        next(messages)
        started, cpu = time.perf_counter(), time.process_time()
        left = target["messages"] - 1
        for _ in messages:
            left -= 1
            if not left:
                break
        return time.perf_counter() - started, time.process_time() - cpu


def group_consumer(target: dict[str, Any], runtime: str) -> Any:
    from zkbroker.config.group_consumer import GroupConsumerConfig
    from zkbroker.consumer.group.consumer import GroupConsumer

    config = GroupConsumerConfig(
        bootstrap_servers=(target["bootstrap"],),
        group_id=f"bench-{uuid.uuid4().hex[:8]}",
        auto_offset_reset="earliest",
    )
    consumer = GroupConsumer(config, runtime=runtime)
    consumer.subscribe([target["topic"]])
    return consumer


def read_kafka_python(target: dict[str, Any]) -> tuple[float, float]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        target["topic"],
        bootstrap_servers=target["bootstrap"],
        group_id=None,
        auto_offset_reset="earliest",
    )
    next(consumer)
    started, cpu = time.perf_counter(), time.process_time()
    left = target["messages"] - 1
    for _ in consumer:
        left -= 1
        if not left:
            break
    taken = time.perf_counter() - started, time.process_time() - cpu
    consumer.close()
    return taken


def read_confluent(target: dict[str, Any]) -> tuple[float, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": target["bootstrap"],
            "group.id": f"bench-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(target["topic"], 0, OFFSET_BEGINNING)])
    left = target["messages"]
    while left == target["messages"]:
        left -= len(consumer.consume(1, 1.0))
    started, cpu = time.perf_counter(), time.process_time()
    while left > 0:
        for message in consumer.consume(1000, 1.0):
            message.value()
            left -= 1
    taken = time.perf_counter() - started, time.process_time() - cpu
    consumer.close()
    return taken


def read_confluent_poll(target: dict[str, Any]) -> tuple[float, float]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": target["bootstrap"], "group.id": f"bench-{uuid.uuid4().hex[:8]}"}
    )
    consumer.assign([TopicPartition(target["topic"], 0, OFFSET_BEGINNING)])
    left = target["messages"]
    while left == target["messages"]:
        left -= consumer.poll(1.0) is not None
    started, cpu = time.perf_counter(), time.process_time()
    while left > 0:
        message = consumer.poll(1.0)
        if message is not None:
            message.value()
            left -= 1
    taken = time.perf_counter() - started, time.process_time() - cpu
    consumer.close()
    return taken


PURE = "stream, threads, no C"
# A thousand at a time is the fastest way that this client offers.
BASE = "confluent-kafka consume(1000)"
OTHERS = (BASE, "confluent-kafka poll()", "kafka-python")
READERS = {
    "stream, threads": read_zkbroker,
    "GroupConsumer.poll, threads": read_group_poll,
    "GroupConsumer iterated": read_group_iterate,
    BASE: read_confluent,
    "confluent-kafka poll()": read_confluent_poll,
    "stream, gevent": read_zkbroker_gevent,
    "GroupConsumer.poll, gevent": lambda target: read_group_poll(target, "gevent"),
    PURE: read_zkbroker,
    "kafka-python": read_kafka_python,
}


def produce(cluster: LocalCluster, topic: str, messages: int, size: int) -> None:
    sender = TestProducer(cluster.bootstrap_servers)
    per_batch = max(1, BATCH_BYTES // (size + 10))
    value = b"x" * size
    for start in range(0, messages, per_batch):
        sender.send(topic, 0, [value] * min(per_batch, messages - start))
    sender.close()


def run(messages: int, size: int, rounds: int, wanted: set[str]) -> Found:
    names = [name for name in READERS if not wanted or name in wanted]
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with LocalCluster(1) as cluster:
        topic = cluster.create_topic()
        produce(cluster, topic, messages, size)
        target = {
            "topic": topic,
            "messages": messages,
            "bootstrap": cluster.bootstrap_servers,
            "zookeeper": cluster.zookeeper,
        }
        for _ in range(rounds):
            for name in names:
                done = subprocess.run(
                    [sys.executable, "-m", "bench.consumer", "--read", name],
                    input=json.dumps(target),
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                    env=os.environ | ({"ZKBROKER_PURE_PYTHON": "1"} if name == PURE else {}),
                )
                results[name].append(tuple(json.loads(done.stdout)))
                print(f"  {name}: {messages / results[name][-1][0]:,.0f}/s", flush=True)
    print(f"{messages:,} messages of {size} bytes, medians of {rounds} rounds")
    return Found("consumer", of_clients(messages, results, OTHERS))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--only", default="", help="names of the readers, with semicolons")
    parser.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(READERS[given.read](json.load(sys.stdin))))
    else:
        wanted = {name.strip() for name in given.only.split(";") if name}
        found = run(given.messages, given.size, given.rounds, wanted)
        publish(found, given.results)


if __name__ == "__main__":
    main()
