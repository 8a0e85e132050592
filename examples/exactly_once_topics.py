"""Exactly once from topic to topic: consume, transform, produce, in transactions.

    python -m examples.exactly_once_topics copy --brokers 127.0.0.1:9092 --source in --target out
    python -m examples.exactly_once_topics prove

`copy` reads one topic, changes each message and writes it to another. Its messages and its progress
in the source are committed together. Killed at any moment, it goes on where its last transaction
ended, and readers with isolation.level=read_committed never see the messages written since.

Three rules make that work:

- One name, one program: the `transactional.id` belongs to these partitions. A second program under
  the same name fences the first one, so that a program that only seemed dead (it was paused, its
  network was down) can no longer write.
- `init_transactions` comes before the offsets are read: it ends the predecessor's open transaction.
- The source is read with read_committed, so that chains of such programs stay exact.

`prove` tests it on its own cluster: it kills the program and brokers again and again, and then
counts messages.
"""

import argparse
import logging
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import AssignedConsumer, GroupConsumer
from zkbroker.producer import KeyedMessage, Producer, TransactionAbortable
from zkbroker.testing import LocalCluster

PARTITIONS = 2


def transform(value: bytes) -> bytes:
    """Change one message; here, to upper case."""
    return value.upper()


# -- the program


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of `copy`.

    Args:
        brokers: some of them.
        source: topic to read.
        target: topic to write.
        name: the transactional id, and the group whose offsets are its progress.
        batch: most messages in a transaction.
        partitions: of both topics.
        timeout_ms: a transaction that is open for longer is aborted.
        transform: changes one message.
    """

    brokers: str
    source: str
    target: str
    name: str = "copier"
    batch: int = 100
    partitions: int = PARTITIONS
    timeout_ms: int = 10_000
    transform: Callable[[bytes], bytes] = transform


def copy(options: Options, stopping: threading.Event) -> None:
    """Copy until `stopping` is set.

    Raises:
        TransactionFatal: another program fenced this one, or the outcome is unknown; a new program
            has to go on.
    """
    producing = ProducerConfig(
        broker_list=(*options.brokers.split(","),),
        transactional_id=options.name,
        transaction_timeout_ms=options.timeout_ms,
        producer_type="async",
    )
    consuming = GroupConsumerConfig(
        bootstrap_servers=(*options.brokers.split(","),),
        group_id=options.name,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with Producer(producing) as producer:
        producer.init_transactions()
        with GroupConsumer(consuming) as consumer:
            # All partitions are assigned, since only this name works on them.
            consumer.assign((options.source, number) for number in range(options.partitions))
            while not stopping.is_set():
                taken = consumer.poll(0.5, options.batch)
                if not taken:
                    continue
                try:
                    with producer.transaction():
                        for message in taken:
                            value = options.transform(message.value or b"")
                            producer.send(
                                KeyedMessage(
                                    options.target,
                                    value,
                                    key=message.key,
                                    partition=message.partition,
                                )
                            )
                        producer.send_offsets(consumer.positions(), consumer)
                except TransactionAbortable:
                    # The transaction was aborted: read the same messages again.
                    for message in reversed(taken):
                        consumer.seek(message.topic, message.partition, message.offset)


# -- the proof


@dataclass(frozen=True, kw_only=True)
class Proof:
    """The result of `prove`."""

    sent: int
    missing: int
    twice: int
    strange: int
    program_kills: int
    broker_kills: int

    @property
    def holds(self) -> bool:
        """Whether each message is there exactly once, and no other."""
        return not (self.missing or self.twice or self.strange)

    def __str__(self) -> str:
        verdict = "exactly once" if self.holds else "NOT EXACTLY ONCE"
        return (
            f"{verdict}: {self.sent} messages in, {self.missing} missing, {self.twice} twice, "
            f"{self.strange} strange; killed {self.program_kills} programs and "
            f"{self.broker_kills} brokers"
        )


def prove(messages: int, kills: int, seed: int = 0) -> Proof:
    """Copy while programs and brokers are killed, and count the messages that readers of the target
    get.
    """
    chance = random.Random(seed)
    small = {
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "3",
    }
    with LocalCluster(3, replication=3, properties=small) as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(topic, partitions=PARTITIONS)
        wanted = [b"message %d" % number for number in range(messages)]
        settings = ProducerConfig(
            broker_list=(cluster.bootstrap_servers.split(",")[0],),
            idempotence=True,
            required_acks=-1,
        )
        program_kills = broker_kills = 0
        share = -(-messages // max(1, kills))
        with Producer(settings) as producer, _view(cluster) as view:
            for number in range(max(1, kills)):
                part = wanted[number * share : (number + 1) * share]
                producer.send([KeyedMessage("in", value) for value in part])
                before = _ends(view, "out")
                with _program(cluster.bootstrap_servers) as program:
                    # In the middle of the work: some messages were written, and more will come.
                    while _ends(view, "out") == before and program.poll() is None:
                        time.sleep(0.02)
                    time.sleep(chance.uniform(0, 0.2))
                    if number % 2:
                        broker = cluster.broker(chance.randint(1, 3))
                        broker.kill()
                        broker_kills += 1
                        time.sleep(chance.uniform(0, 3))
                        broker.start()
                    program.kill()
                    program_kills += 1
            with _program(cluster.bootstrap_servers):
                found = _committed(view, messages)
        counted = Counter(found)
        expected = {transform(value) for value in wanted}
        return Proof(
            sent=messages,
            missing=len(expected - counted.keys()),
            twice=sum(count - 1 for count in counted.values()),
            strange=len(counted.keys() - expected),
            program_kills=program_kills,
            broker_kills=broker_kills,
        )


@contextmanager
def _program(brokers: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "examples.exactly_once_topics", "copy"]
    command += ["--brokers", brokers, "--source", "in", "--target", "out", "--batch", "10"]
    program = subprocess.Popen(command)
    try:
        yield program
    finally:
        program.terminate()
        program.wait()


def _view(cluster: LocalCluster) -> Cluster:
    return Cluster(StaticSource(tuple(cluster.bootstrap_servers.split(","))))


def _ends(view: Cluster, topic: str, *, stable: bool = False) -> dict[tuple[str, int], int | None]:
    keys = [(topic, number) for number in range(PARTITIONS)]
    latest = dict.fromkeys(keys, LATEST_TIME)
    return resolve_offsets(view, latest, read_committed=stable, timeout_s=30)


def _committed(view: Cluster, count: int) -> list[bytes | None]:
    """Return the committed messages, once there are `count` and no transaction is open."""
    reading = FetchSettings(read_committed=True)
    found: list[bytes | None] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        stable = _ends(view, "out", stable=True)
        if _ends(view, "out") == stable:
            begin = dict.fromkeys(stable, 0)
            with AssignedConsumer(view, begin, stop=stable, settings=reading) as consumer:
                found = [message.value for message in consumer]
            if len(found) >= count:
                break
        time.sleep(0.5)
    return found


def main() -> None:
    """Parse the command line, and copy or prove."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    copying = commands.add_parser("copy")
    copying.add_argument("--brokers", required=True)
    copying.add_argument("--source", required=True)
    copying.add_argument("--target", required=True)
    copying.add_argument("--name", default="copier")
    copying.add_argument("--batch", type=int, default=100)
    proving = commands.add_parser("prove")
    proving.add_argument("--messages", type=int, default=2000)
    proving.add_argument("--kills", type=int, default=6)
    options = vars(parser.parse_args())
    logging.basicConfig(level=logging.ERROR)
    if options.pop("command") == "prove":
        proof = prove(**options)
        print(proof)
        sys.exit(not proof.holds)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    copy(Options(**options), stopping)


if __name__ == "__main__":
    main()
