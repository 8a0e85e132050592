"""Messages per second of producers: zkbroker, confluent-kafka, kafka-python.

`async`: N messages of 100 bytes, acks=1, from the first send to the last acknowledgement.
`sync`: single sends, each waiting for its acknowledgement; latency p50 and p99.

    python -m bench.producer [--messages 1000000] [--rounds 5] [--singles 2000] [--partitions 1]

One broker process, each producer in a process of its own, one after the other, round by round.
A ratio is taken within each round, so that both sides of it run under the same conditions;
medians and the range of the rounds are printed. CPU is that of the producer's process, with all of
its threads.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.figures import Comparison, Found, of_clients, options, publish
from zkbroker.testing import LocalCluster

VALUE = b"x" * 100
BASE = "confluent-kafka"
OTHERS = (BASE, "confluent-kafka, no reports", "kafka-python")


def zkbroker_producer(address: str, kind: str, runtime: str, idempotent: bool) -> Any:
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.producer import Producer

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


class Measured:
    """Clocks around the messages, with their values at the end."""

    def __enter__(self) -> "Measured":
        self.started, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.seconds = time.perf_counter() - self.started
        self.cpu_s = time.process_time() - self.cpu


def run_zkbroker(
    address: str, topic: str, count: int, *, runtime: str = "threads", idempotent: bool = False
) -> Measured:
    from zkbroker.producer import KeyedMessage

    producer = zkbroker_producer(address, "async", runtime, idempotent)
    send = producer.send
    with Measured() as measured:
        for _ in range(count):
            last = send(KeyedMessage(topic, VALUE))
        producer.flush(120)
    assert last.done()
    assert producer.metrics()["failed_messages"] == 0
    producer.close(10)
    return measured


def run_kafka_python(address: str, topic: str, count: int) -> Measured:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        acks=1,
        enable_idempotence=False,
        linger_ms=5,
        batch_size=500_000,
        max_block_ms=120_000,
    )
    send = producer.send
    with Measured() as measured:
        for _ in range(count):
            last = send(topic, VALUE)
        producer.flush(600)
    assert last.succeeded()
    producer.close(10)
    return measured


def run_confluent(address: str, topic: str, count: int, *, reports: bool = True) -> Measured:
    """Send; with `reports` get the outcome of each message, as with our futures."""
    import confluent_kafka

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

    produce = producer.produce
    callback = {"on_delivery": delivered} if reports else {}
    with Measured() as measured:
        for _ in range(count):
            while True:
                try:
                    produce(topic, VALUE, **callback)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(600) == 0
    assert acknowledged == (count if reports else 0)
    return measured


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
    from zkbroker.producer import KeyedMessage

    with zkbroker_producer(address, "sync", runtime, False) as producer:
        return latencies(lambda: producer.send(KeyedMessage(topic, VALUE)), count)


def sync_kafka_python(address: str, topic: str, count: int) -> tuple[float, float]:
    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=address, acks=1, enable_idempotence=False)
    try:
        return latencies(lambda: producer.send(topic, VALUE).get(30), count)
    finally:
        producer.close(10)


def sync_confluent(address: str, topic: str, count: int) -> tuple[float, float]:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": 1, "linger.ms": 0})

    def send() -> None:
        producer.produce(topic, VALUE)
        producer.flush(30)

    return latencies(send, count)


PURE = "zkbroker threads, no C"
RUNS: dict[str, Callable[[str, str, int], Measured]] = {
    "zkbroker threads": run_zkbroker,
    BASE: run_confluent,
    "zkbroker gevent": lambda *given: run_zkbroker(*given, runtime="gevent"),
    "zkbroker idempotent": lambda *given: run_zkbroker(*given, idempotent=True),
    PURE: run_zkbroker,
    "confluent-kafka, no reports": lambda *given: run_confluent(*given, reports=False),
    "kafka-python": run_kafka_python,
}
SINGLES: dict[str, Callable[[str, str, int], tuple[float, float]]] = {
    "zkbroker threads": lambda *given: sync_zkbroker(*given, "threads"),
    BASE: sync_confluent,
    "zkbroker gevent": lambda *given: sync_zkbroker(*given, "gevent"),
    "kafka-python": sync_kafka_python,
}


def in_own_process(name: str, *, single: bool, target: tuple[str, str, int]) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.producer", "--run", name, *(["--single"] * single)],
        input=json.dumps(target),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | ({"ZKBROKER_PURE_PYTHON": "1"} if name == PURE else {}),
    )
    first, second = json.loads(done.stdout)
    return first, second


def of_singles(delays: dict[str, list[tuple[float, float]]]) -> list[Comparison]:
    """Compare sends one at a time, each with a wait."""
    found = []
    for base in [name for name in OTHERS if name in delays]:
        for name in [name for name in delays if name not in OTHERS]:
            for at, unit in enumerate(("p50 ms", "p99 ms")):
                mine, theirs = ([pair[at] for pair in delays[side]] for side in (name, base))
                work = f"{name}, one at a time"
                found.append(Comparison(work, unit, base, mine, theirs, more_is_better=False))
    return found


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--singles", type=int, default=2000, help="0 for no sync sends")
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--only", default="", help="names of the runs to make, with semicolons")
    parser.add_argument("--run", choices=[*RUNS, *SINGLES], help=argparse.SUPPRESS)
    parser.add_argument("--single", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run and given.single:
        print(json.dumps(SINGLES[given.run](*json.load(sys.stdin))))
        return
    if given.run:
        measured = RUNS[given.run](*json.load(sys.stdin))
        print(json.dumps((measured.seconds, measured.cpu_s)))
        return
    wanted = {name.strip() for name in given.only.split(";") if name}
    found: dict[str, list[tuple[float, float]]] = {}
    delays: dict[str, list[tuple[float, float]]] = {}
    with LocalCluster(1) as cluster:
        topic = cluster.create_topic(partitions=given.partitions)
        address = cluster.bootstrap_servers
        for _ in range(given.rounds):
            for name in [name for name in RUNS if not wanted or name in wanted]:
                target = (address, topic, given.messages)
                found.setdefault(name, []).append(in_own_process(name, single=False, target=target))
                seconds, cpu = found[name][-1]
                print(f"  {name}: {given.messages / seconds:,.0f}/s, {cpu:.2f} s CPU", flush=True)
            for name in [name for name in SINGLES if not wanted or name in wanted]:
                if given.singles:
                    target = (address, topic, given.singles)
                    pair = in_own_process(name, single=True, target=target)
                    delays.setdefault(name, []).append(pair)
    comparisons = of_clients(given.messages, found, OTHERS) + of_singles(delays)
    result = Found("producer", comparisons)
    print(f"{given.messages:,} x {len(VALUE)} B, acks=1, medians of {given.rounds} rounds")
    publish(result, given.results)


if __name__ == "__main__":
    main()
