"""Messages per second of one consumer reading one topic: zkbroker, kafka-python, confluent-kafka.

    python -m bench.consumer [--messages 1000000] [--size 100] [--rounds 3]

One broker, one partition, all readers in processes of their own, one after the other, round by
round; a reader's clock runs from its first message to its last. Compare the ratios of one run,
never the numbers of two.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid
from typing import Any

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
        # A thousand at a time is the fastest way that this client offers.
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


PURE = "zkbroker, threads, no C"
READERS = {
    "zkbroker, threads": read_zkbroker,
    "zkbroker, gevent": read_zkbroker_gevent,
    PURE: read_zkbroker,
    "kafka-python": read_kafka_python,
    "confluent-kafka consume(1000)": read_confluent,
    "confluent-kafka poll()": read_confluent_poll,
}


def produce(cluster: LocalCluster, topic: str, messages: int, size: int) -> None:
    sender = TestProducer(cluster.bootstrap_servers)
    per_batch = max(1, BATCH_BYTES // (size + 10))
    value = b"x" * size
    for start in range(0, messages, per_batch):
        sender.send(topic, 0, [value] * min(per_batch, messages - start))
    sender.close()


def run(messages: int, size: int, rounds: int) -> None:
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in READERS}
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
            for name in READERS:
                command = [sys.executable, "-m", "bench.consumer", "--read", name]
                done = subprocess.run(
                    command,
                    input=json.dumps(target),
                    capture_output=True,
                    text=True,
                    check=True,
                    env=os.environ | ({"ZKBROKER_PURE_PYTHON": "1"} if name == PURE else {}),
                )
                results[name].append(tuple(json.loads(done.stdout)))
    base = statistics.median(taken for taken, _ in results["kafka-python"])
    print(f"{messages} messages of {size} bytes, one stream, medians of {rounds} rounds")
    for name, runs in results.items():
        taken = statistics.median(wall for wall, _ in runs)
        cpu = statistics.median(cpu for _, cpu in runs)
        print(
            f"{name:32}{messages / taken:12,.0f} msg/s  {base / taken:6.2f} x kafka-python  "
            f"{cpu / messages * 1e6:6.2f} us CPU a message"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", choices=READERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(READERS[options.read](json.load(sys.stdin))))
    else:
        run(options.messages, options.size, options.rounds)


if __name__ == "__main__":
    main()
