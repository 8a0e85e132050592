"""Consume, transform, produce in transactions, with each client, under kills and pauses.

One program copies a topic; it, its coordinator and other brokers are killed, and it is paused for
longer than its transactions may take while a successor works. However that goes, whoever reads
committed messages finds each input once and nothing else, and no transaction stays open.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import confluent_kafka
import pytest

from tests.support import java_clients, soak
from tests.support.clusters import module_cluster
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import AssignedConsumer
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ZkbrokerError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.testing import LocalCluster

PARTITIONS = 2
TIMEOUT_MS = 4000
A_ROUND_S = 90
STANDSTILL_S = 40
"""After so long a program of librdkafka is replaced: from 2.10 on it may wait for ever in
`send_offsets_to_transaction` when the group's coordinator was away (its issue 5511)."""
STATE_PARTITIONS = 3
CLIENTS = ["ours", "confluent", "aiokafka", *(f"java {each}" for each in java_clients.versions())]


cluster = module_cluster(
    3,
    replication=3,
    properties={
        "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
        "offsets.topic.num.partitions": "3",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    },
)


class Rounds:
    """Rounds of one client; each feeds some messages and breaks something.

    Args:
        cluster: where.
        client: which.
        seed: of what is broken.
    """

    def __init__(self, cluster: LocalCluster, client: str, seed: int) -> None:
        self.cluster = cluster
        self.client = client
        self.source = cluster.create_topic(partitions=PARTITIONS)
        self.target = cluster.create_topic(partitions=PARTITIONS)
        self.chance = random.Random(seed)
        self.brokers = cluster.bootstrap_servers
        self.view = Cluster(StaticSource(tuple(self.brokers.split(",")))).start()
        self.sent: list[bytes] = []
        self.programs: list[subprocess.Popen[bytes]] = []
        self.done: Counter[str] = Counter()
        settings = ProducerConfig(
            broker_list=tuple(self.brokers.split(",")), required_acks=-1, idempotence=True
        )
        self.feeder = Producer(settings)
        shared = [self.source, self.source, self.target, str(PARTITIONS), str(TIMEOUT_MS)]
        if client.startswith("java "):
            version = client.split()[1]
            self.command = java_clients.command(
                "TransactionalCopier", version, self.brokers, *shared
            )
        else:
            copier = [sys.executable, "-m", "tests.interop.transactional_copier", client]
            self.command = [*copier, self.brokers, *shared]

    def close(self) -> None:
        for program in self.programs:
            program.send_signal(signal.SIGCONT)
            program.kill()
            program.wait()
        self.feeder.close()
        self.view.close()

    def ends(self, *, stable: bool) -> dict[tuple[str, int], int | None]:
        times = {(self.target, number): LATEST_TIME for number in range(PARTITIONS)}
        return resolve_offsets(self.view, times, read_committed=stable, timeout_s=30)

    def start(self) -> subprocess.Popen[bytes]:
        program = subprocess.Popen(
            self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.programs.append(program)
        return program

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, and start another program where the last one gave up."""
        deadline = time.monotonic() + A_ROUND_S
        patience = time.monotonic() + STANDSTILL_S
        while not condition():
            assert time.monotonic() < deadline, (what, self.done)
            if self.client == "confluent" and time.monotonic() > patience:
                self.done["stood still"] += 1
                patience = deadline
                self.programs[-1].kill()
                self.programs[-1].wait()
            if self.programs[-1].poll() is not None:
                self.done["gave up"] += 1
                self.start()
            time.sleep(0.05)

    def feed(self, count: int = 40) -> None:
        values = [b"%d" % number for number in range(len(self.sent), len(self.sent) + count)]
        self.sent += values
        self.feeder.send([KeyedMessage(self.source, value) for value in values])

    def round(self, kind: str) -> None:
        """Feed the copier, break something meanwhile, and check that it continues."""
        before = self.ends(stable=True)
        self.feed()
        if not self.programs or self.programs[-1].poll() is not None:
            self.start()
        self.until(lambda: self.ends(stable=False) != before, "nothing is copied")
        time.sleep(self.chance.uniform(0, 0.1))
        getattr(self, kind)()
        self.done[kind] += 1
        self.feed(10)
        self.until(lambda: self.settled(before), "the last stable offset does not move on")

    def settled(self, before: dict[tuple[str, int], int | None]) -> bool:
        stable = self.ends(stable=True)
        return all((stable[key] or 0) > (before[key] or 0) for key in stable)

    # -- faults

    def program_killed(self) -> None:
        self.programs[-1].kill()
        self.programs[-1].wait()
        self.start()

    def program_paused(self) -> None:
        zombie = self.programs[-1]
        zombie.send_signal(signal.SIGSTOP)
        self.start()
        time.sleep(TIMEOUT_MS / 1000 + self.chance.uniform(0, 2))
        zombie.send_signal(signal.SIGCONT)
        time.sleep(self.chance.uniform(0, 1))

    def coordinator_killed(self) -> None:
        self.view.refresh([TRANSACTION_TOPIC])
        number = key_partition(self.source, STATE_PARTITIONS)
        leader = self.view.leader(TRANSACTION_TOPIC, number)
        self._kill(leader or self.chance.randint(1, 3))

    def broker_killed(self) -> None:
        self._kill(self.chance.randint(1, 3))

    def _kill(self, broker_id: int) -> None:
        broker = self.cluster.broker(broker_id)
        broker.kill()
        time.sleep(self.chance.uniform(0, 4))
        broker.start()

    # -- results

    def finish(self) -> None:
        """Wait until everything is copied and nothing is open, and read it with each reader."""
        total = len(self.sent)
        self.until(lambda: self._copied() >= total, "not everything is copied")
        for program in self.programs:
            program.send_signal(signal.SIGCONT)
            program.kill()
        # Transactions of killed copiers end by their timeout.
        deadline = time.monotonic() + A_ROUND_S
        while self.ends(stable=True) != self.ends(stable=False):
            assert time.monotonic() < deadline, "a transaction hangs"
            time.sleep(0.2)
        wanted = sorted(self.sent)
        for reader in (read_ours, read_librdkafka, *([read_java] if JAVA else [])):
            found = reader(self)
            assert sorted(found) == wanted, (reader.__name__, Counter(found) - Counter(wanted))

    def _copied(self) -> int:
        try:
            return len(read_ours(self))
        except ZkbrokerError:
            return -1


JAVA = java_clients.versions()[-1:]


def read_ours(rounds: Rounds) -> list[bytes]:
    stop = {key: end or 0 for key, end in rounds.ends(stable=True).items()}
    settings = FetchSettings(read_committed=True)
    begin = dict.fromkeys(stop, 0)
    with AssignedConsumer(rounds.view, begin, stop=stop, settings=settings) as consumer:
        return [message.value or b"" for message in consumer]


def read_librdkafka(rounds: Rounds) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": rounds.brokers,
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign(
        [confluent_kafka.TopicPartition(rounds.target, number, 0) for number in range(PARTITIONS)]
    )
    found: list[bytes] = []
    ended: set[int] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                found.append(message.value())
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return found


def read_java(rounds: Rounds) -> list[bytes]:
    command = java_clients.command(
        "TransactionalCopier", JAVA[0], rounds.brokers, "read", rounds.target, str(PARTITIONS)
    )
    return java_clients.run(command).encode().split()


KINDS = ["program_killed", "coordinator_killed", "program_paused", "broker_killed"]


def run(cluster: LocalCluster, client: str, kinds: Sequence[str], seed: int) -> None:
    rounds = Rounds(cluster, client, seed)
    try:
        for number, kind in enumerate(kinds):
            rounds.round(kind)
            print(f"{client}: round {number + 1} of {len(kinds)}, {dict(rounds.done)}", flush=True)
        rounds.finish()
    finally:
        rounds.close()


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(each, marks=[pytest.mark.soak] if each == "java 3.9.0" else [])
        for each in CLIENTS
    ],
)
def test_each_message_is_copied_once_despite_kills(cluster: LocalCluster, client: str) -> None:
    run(cluster, client, ["program_killed", "coordinator_killed"], seed=1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_hundred_rounds(cluster: LocalCluster, client: str) -> None:
    run(cluster, client, KINDS * soak.part_of(25), seed=2 + soak.SEED)
