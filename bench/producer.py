"""Producers side by side on one zkbroker broker process, interleaved, medians of rounds.

`async`: N messages of 100 bytes, acks=1, from the first send to the last acknowledgement.
`sync`: single sends, each waiting for its acknowledgement; latency p50 and p99.
The clients take turns within each round, so that all meet the same weather.

    python -m bench.producer [--messages 1000000] [--rounds 3] [--singles 2000] [--partitions 1]
"""

import argparse
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable

import confluent_kafka
import kafka

from zkbroker.cluster import ClusterProcesses
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.topics import create_topic
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

VALUE = b"x" * 100


def zkbroker_producer(address: str, kind: str, runtime: str, idempotent: bool) -> Producer:
    return Producer(
        ProducerConfig.from_properties(
            {
                "metadata.broker.list": address,
                "producer.type": kind,
                "request.required.acks": "1",
                "queue.buffering.max.messages": "100000",
                "queue.buffering.max.ms": "5",
                "batch.num.messages": "5000",
                "enable.idempotence": str(idempotent).lower(),
            }
        ),
        runtime=runtime,
    )


def run_zkbroker(
    address: str, topic: str, count: int, *, runtime: str = "threads", idempotent: bool = False
) -> float:
    producer = zkbroker_producer(address, "async", runtime, idempotent)
    started = time.perf_counter()
    send = producer.send
    for _ in range(count):
        last = send(KeyedMessage(topic, VALUE))
    producer.flush(120)
    took = time.perf_counter() - started
    assert last.done()
    assert producer.metrics()["failed_messages"] == 0
    producer.close(10)
    return count / took


def run_kafka_python(address: str, topic: str, count: int) -> float:
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        acks=1,
        enable_idempotence=False,
        linger_ms=5,
        batch_size=500_000,
        max_block_ms=120_000,
    )
    started = time.perf_counter()
    send = producer.send
    for _ in range(count):
        last = send(topic, VALUE)
    producer.flush(600)
    took = time.perf_counter() - started
    assert last.succeeded()
    producer.close(10)
    return count / took


def run_confluent(address: str, topic: str, count: int) -> float:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
            "batch.num.messages": 100_000,
        }
    )
    acknowledged = 0

    def delivered(error: object, message: object) -> None:
        nonlocal acknowledged
        assert error is None
        acknowledged += 1

    started = time.perf_counter()
    produce = producer.produce
    for _ in range(count):
        while True:
            try:
                produce(topic, VALUE, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(600)
    took = time.perf_counter() - started
    assert acknowledged == count
    return count / took


def latencies(send: Callable[[], object], count: int) -> tuple[float, float]:
    """Return p50 and p99 in ms."""
    for _ in range(50):
        send()
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        send()
        taken.append((time.perf_counter() - started) * 1000)
    taken.sort()
    return taken[count // 2], taken[int(count * 0.99)]


def sync_zkbroker(address: str, topic: str, count: int, runtime: str) -> tuple[float, float]:
    with zkbroker_producer(address, "sync", runtime, False) as producer:
        return latencies(lambda: producer.send(KeyedMessage(topic, VALUE)), count)


def sync_kafka_python(address: str, topic: str, count: int) -> tuple[float, float]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, acks=1, enable_idempotence=False)
    try:
        return latencies(lambda: producer.send(topic, VALUE).get(30), count)
    finally:
        producer.close(10)


def sync_confluent(address: str, topic: str, count: int) -> tuple[float, float]:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": 1, "linger.ms": 0})

    def send() -> None:
        producer.produce(topic, VALUE)
        producer.flush(30)

    return latencies(send, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=2000)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the names of the runs to make")
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {}
    delays: dict[str, list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        ClusterProcesses(directory, brokers=1) as cluster,
        ZkSession(cluster.zookeeper, runtime=get_runtime("threads")) as session,
    ):
        address = cluster.bootstrap_servers
        create_topic(session, "bench", {number: [1] for number in range(arguments.partitions)}, {})
        count = arguments.messages
        runs: dict[str, Callable[[], float]] = {
            "zkbroker threads": lambda: run_zkbroker(address, "bench", count),
            "kafka-python": lambda: run_kafka_python(address, "bench", count),
            "confluent-kafka": lambda: run_confluent(address, "bench", count),
            "zkbroker gevent": lambda: run_zkbroker(address, "bench", count, runtime="gevent"),
            "zkbroker idempotent": lambda: run_zkbroker(address, "bench", count, idempotent=True),
        }
        singles: dict[str, Callable[[], tuple[float, float]]] = {
            "zkbroker threads": lambda: sync_zkbroker(
                address, "bench", arguments.singles, "threads"
            ),
            "kafka-python": lambda: sync_kafka_python(address, "bench", arguments.singles),
            "confluent-kafka": lambda: sync_confluent(address, "bench", arguments.singles),
            "zkbroker gevent": lambda: sync_zkbroker(address, "bench", arguments.singles, "gevent"),
        }
        for _ in range(arguments.rounds):
            for name, run in runs.items():
                if arguments.only in name:
                    rates.setdefault(name, []).append(run())
                    print(f"  async {name}: {rates[name][-1]:,.0f} messages/s", flush=True)
            for name, single in singles.items():
                if arguments.only in name and arguments.singles:
                    delays.setdefault(name, []).append(single())
    with contextlib.suppress(KeyError):
        base = statistics.median(rates["zkbroker threads"])
        print(f"\nkafka-python {kafka.__version__}, confluent-kafka {confluent_kafka.__version__}")
        print(f"async, {count:,} x {len(VALUE)} B, acks=1, medians of {arguments.rounds}:")
        for name, taken in rates.items():
            rate = statistics.median(taken)
            print(
                f"  {name:20} {rate:10,.0f} messages/s   zkbroker threads / it: {base / rate:.2f}"
            )
        print(f"sync, {arguments.singles} single sends, medians of {arguments.rounds}:")
        for name, pairs in delays.items():
            p50 = statistics.median(p for p, _ in pairs)
            p99 = statistics.median(p for _, p in pairs)
            print(f"  {name:20} p50 {p50:.3f} ms   p99 {p99:.3f} ms")


if __name__ == "__main__":
    main()
