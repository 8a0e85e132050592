"""What transactions cost, against plain idempotent production: confluent-kafka and our producer.

For each number of messages that a transaction has: transactions per second, and what one message
costs in microseconds; then the same without transactions, flushed as often, so that both wait for
their acknowledgements. Messages of 100 bytes, acks=all, three brokers, three replicas each.
The clients and sizes take turns within each round, so that all meet the same weather.

    python -m bench.transactions [--seconds 4] [--rounds 3] [--sizes 1,10,100,1000] [--only ""]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Protocol

import confluent_kafka

from zkbroker.cluster import ClusterProcesses
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.topics import create_topic
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

VALUE = b"x" * 100
TOPIC = "bench"
BROKERS = 3
PARTITIONS = 3
PATIENCE_S = 60


class Client(Protocol):
    """A producer: how it sends some messages, and makes sure of them."""

    def begin(self) -> None: ...
    def send(self, count: int) -> None: ...
    def end(self) -> None:
        """Commit, or wait for the acknowledgements."""

    def close(self) -> None: ...


class Confluent:
    """confluent-kafka."""

    def __init__(self, servers: str, *, transactional: bool) -> None:
        self.transactional = transactional
        self.failed = 0
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 0 if transactional else 1,
            "queue.buffering.max.messages": 1_000_000,
        }
        if transactional:
            settings["transactional.id"] = f"confluent-{time.monotonic_ns()}"
        self.producer = confluent_kafka.Producer(settings)
        if transactional:
            self.producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        if self.transactional:
            self.producer.begin_transaction()

    def send(self, count: int) -> None:
        for number in range(count):
            self.producer.produce(
                TOPIC, VALUE, partition=number % PARTITIONS, on_delivery=self._delivered
            )

    def end(self) -> None:
        if self.transactional:
            self.producer.commit_transaction(PATIENCE_S)
        else:
            assert self.producer.flush(PATIENCE_S) == 0
        assert self.failed == 0

    def close(self) -> None:
        self.producer.flush(PATIENCE_S)

    def _delivered(self, error: object, message: object) -> None:
        self.failed += error is not None


class Ours:
    """zkbroker.producer."""

    def __init__(self, servers: str, *, transactional: bool) -> None:
        self.transactional = transactional
        settings = {
            "metadata.broker.list": servers,
            "producer.type": "async",
            "request.required.acks": "-1",
            "enable.idempotence": "true",
            "queue.buffering.max.ms": "1",
            "queue.buffering.max.messages": "100000",
            "batch.num.messages": "5000",
        }
        if transactional:
            settings["transactional.id"] = f"ours-{time.monotonic_ns()}"
        self.producer = Producer(ProducerConfig.from_properties(settings))
        if transactional:
            self.producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        if self.transactional:
            self.producer.begin()

    def send(self, count: int) -> None:
        for number in range(count):
            self.producer.send(KeyedMessage(TOPIC, VALUE, partition=number % PARTITIONS))

    def end(self) -> None:
        if self.transactional:
            self.producer.commit(PATIENCE_S)
        else:
            self.producer.flush(PATIENCE_S)
        assert self.producer.metrics()["failed_messages"] == 0

    def close(self) -> None:
        self.producer.close(PATIENCE_S)


CLIENTS: dict[str, Callable[..., Client]] = {"confluent-kafka": Confluent, "zkbroker": Ours}


def run(client: Client, size: int, seconds: float) -> tuple[float, float]:
    """Return transactions (or flushes) and messages per second.

    Args:
        client: warm: one of them is done first, which finds leaders and coordinators.
        size: messages in each.
        seconds: how long.
    """
    try:
        _once(client, size)
        count, started = 0, time.perf_counter()
        while (took := time.perf_counter() - started) < seconds:
            _once(client, size)
            count += 1
        return count / took, count * size / took
    finally:
        client.close()


def _once(client: Client, size: int) -> None:
    client.begin()
    client.send(size)
    client.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="1,10,100,1000")
    parser.add_argument("--only", default="", help="part of the names of the clients to run")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    names = [name for name in CLIENTS if arguments.only in name]
    found: dict[tuple[str, int, bool], list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        ClusterProcesses(
            directory,
            brokers=BROKERS,
            replication=BROKERS,
            properties={
                "transaction.state.log.replication.factor": str(BROKERS),
                "transaction.state.log.min.isr": "2",
            },
        ) as cluster,
        ZkSession(cluster.zookeeper, runtime=get_runtime("threads")) as session,
    ):
        servers = cluster.bootstrap_servers
        replicas = [1 + number for number in range(BROKERS)]
        create_topic(
            session,
            TOPIC,
            {number: replicas[number:] + replicas[:number] for number in range(PARTITIONS)},
            {},
        )
        for _ in range(arguments.rounds):
            for size in sizes:
                for name in names:
                    for transactional in (True, False):
                        client = CLIENTS[name](servers, transactional=transactional)
                        rates = run(client, size, arguments.seconds)
                        found.setdefault((name, size, transactional), []).append(rates)
                        kind = "transactions" if transactional else "flushes"
                        print(
                            f"  {name} {size} messages: {rates[0]:,.1f} {kind}/s, "
                            f"{rates[1]:,.0f} messages/s",
                            flush=True,
                        )
    print(
        f"\nconfluent-kafka {confluent_kafka.__version__}; {len(VALUE)} B, acks=all, "
        f"{BROKERS} replicas, {PARTITIONS} partitions, medians of {arguments.rounds}"
    )
    print("client            messages  transactions/s  us/message   flushes/s  us/message    cost")
    for name in names:
        for size in sizes:
            ended = statistics.median(rate for rate, _ in found[name, size, True])
            plain = statistics.median(rate for rate, _ in found[name, size, False])
            print(
                f"{name:16} {size:9,} {ended:15,.1f} {1e6 / (ended * size):11,.1f} "
                f"{plain:11,.1f} {1e6 / (plain * size):11,.1f} {plain / ended:7.2f}x"
            )


if __name__ == "__main__":
    main()
