"""Consume, transform, produce in transactions, while brokers and programs are killed and paused.

In each round there are new inputs and one fault: a broker, the coordinator of the transactions or
of the group is killed, or paused for longer than its session; a program is killed, or paused for
longer than its transaction timeout while another one replaces it, and then resumed.

Readers of committed messages find each input exactly once and in order; and after each round the
last stable offset reaches the log end within the transaction timeout: no transaction hangs.
"""

import contextlib
import random
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support import soak
from tests.support.clusters import TestCluster
from tests.support.mirroring import COMMITTED, read_all
from tests.support.process import wait_until
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ZkbrokerError

BROKERS = 3
PARTITIONS = 2
COORDINATED = 5
INPUTS = 30
SESSION_S = 3.0
TIMEOUT_S = 4.0
CHECK_S = 0.5
STUCK_S = 30
DONE_S = 150
CREATED_LATER = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
)
OUT = [("out", number) for number in range(PARTITIONS)]
OFFSETS = [("__consumer_offsets", number) for number in range(COORDINATED)]


def kill_all(programs):
    for each in programs:
        each.kill()
        each.wait()


class Rounds:
    """A cluster, the inputs, the programs, and their faults."""

    def __init__(self, seed, cluster):
        self.chance = random.Random(seed)
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers
        self.fed = 0
        self.programs = {}
        self.zombies = []
        self.replaced = 0
        self.stuck = 0
        for name in ("in", "out"):
            assert wait_until(lambda name=name: self.created(name), DONE_S, 0.5), name
        self.client = Cluster(StaticSource(self.servers.split(",")), request_timeout_ms=5000)
        self.client.start()

    def close(self):
        self.client.close()
        kill_all([*self.programs.values(), *self.zombies])

    def created(self, topic):
        """Create a topic; false while a broker whose session expired is not back."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, BROKERS)])[topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code not in CREATED_LATER:
                raise
            return code == KafkaError.TOPIC_ALREADY_EXISTS
        return True

    # -- programs

    def start(self, partition):
        self.programs[partition] = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.copier"),
                *(self.servers, str(partition)),
                *(str(int(TIMEOUT_S * 1000)), str(self.chance.getrandbits(30))),
            ]
        )

    def watch(self):
        """Start the programs that do not run, as a supervisor would."""
        for partition in range(PARTITIONS):
            running = self.programs.get(partition)
            if running is None or running.poll() is not None:
                self.replaced += running is not None
                self.start(partition)
        self.zombies = [each for each in self.zombies if each.poll() is None]

    def replace_stuck(self):
        """Kill programs that make no progress, as a supervisor would.

        librdkafka's `send_offsets_to_transaction` may wait for ever, whatever its time-out, when
        the group's coordinator was away from the metadata (its issue 5511).
        """
        self.stuck += 1
        for each in self.programs.values():
            each.send_signal(signal.SIGUSR1)
        time.sleep(0.5)
        kill_all(self.programs.values())

    # -- faults

    def leader(self, topic, partition):
        while True:
            self.client.refresh([topic])
            found = self.client.leader(topic, partition)
            if found is not None:
                return found
            time.sleep(0.1)

    def transactions(self):
        chosen = self.chance.randrange(PARTITIONS)
        return self.leader("__transaction_state", key_partition(f"copier-{chosen}", COORDINATED))

    def group(self):
        return self.leader("__consumer_offsets", key_partition("copiers", COORDINATED))

    def output(self):
        return self.leader("out", self.chance.randrange(PARTITIONS))

    def kill(self, broker):
        self.cluster.broker(broker).kill()
        time.sleep(self.chance.uniform(0.1, 1.5))
        self.cluster.broker(broker).start()

    def pause(self, broker):
        self.cluster.broker(broker).pause()
        time.sleep(SESSION_S * self.chance.uniform(0.3, 2))
        self.cluster.broker(broker).resume()

    def kill_program(self):
        self.programs[self.chance.randrange(PARTITIONS)].kill()

    def pause_program(self):
        """Pause a program; it may be replaced at once, or its transaction may time out."""
        partition = self.chance.randrange(PARTITIONS)
        paused = self.programs[partition]
        paused.send_signal(signal.SIGSTOP)
        if self.chance.random() < 0.5:
            self.zombies.append(paused)
            self.start(partition)
        time.sleep(TIMEOUT_S * self.chance.uniform(0.5, 1.6))
        paused.send_signal(signal.SIGCONT)

    def abandon(self):
        """Kill every program without replacement: open transactions are still aborted."""
        kill_all(self.programs.values())
        self.stable("every program is killed and none is started")

    def both(self):
        self.kill_program()
        self.kill(self.transactions())

    def faults(self):
        return {
            "the transactions' coordinator is killed": lambda: self.kill(self.transactions()),
            "a program stands still": self.pause_program,
            "every program is killed and none is started": self.abandon,
            "the transactions' coordinator stands still": lambda: self.pause(self.transactions()),
            "a program is killed": self.kill_program,
            "a leader of the outputs is killed": lambda: self.kill(self.output()),
            "the group's coordinator is killed": lambda: self.kill(self.group()),
            "a program and its coordinator are killed": self.both,
            "the group's coordinator stands still": lambda: self.pause(self.group()),
            "a leader of the outputs stands still": lambda: self.pause(self.output()),
        }

    # -- one round

    def play(self, number):
        self.feed()
        self.watch()
        time.sleep(self.chance.uniform(0.2, 1.5))
        names = list(self.faults())
        name = names[number % len(names)]
        began = time.monotonic()
        self.faults()[name]()
        ended = time.monotonic()
        self.copied(name)
        done = time.monotonic()
        self.stable(name)
        print(
            f"round {number}: {name} for {ended - began:.1f} s, "
            f"all copied {done - ended:.1f} s later, stable {time.monotonic() - done:.1f} s later, "
            f"programs replaced {self.replaced}, stuck {self.stuck}"
        )

    def feed(self):
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "message.timeout.ms": DONE_S * 1000,
            }
        )
        for number in range(self.fed, self.fed + INPUTS):
            producer.produce("in", b"%d" % number, partition=number % PARTITIONS)
        self.fed += INPUTS
        assert producer.flush(DONE_S) == 0

    def copied(self, after):
        """Wait until every input is committed, and replace programs that are stuck."""
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": "copiers"})
        seen = []
        moved = time.monotonic()

        def done():
            nonlocal moved
            self.watch()
            wanted = [TopicPartition("in", number) for number in range(PARTITIONS)]
            with contextlib.suppress(KafkaException):  # the group's coordinator is not there yet
                found[:] = [each.offset for each in reader.committed(wanted, 10)]
            if found != seen:
                seen[:], moved = found, time.monotonic()
            elif time.monotonic() - moved > STUCK_S:
                self.replace_stuck()
                moved = time.monotonic()
            return found == [self.fed // PARTITIONS] * PARTITIONS

        found = []
        try:
            if not wait_until(done, DONE_S):
                pytest.fail(f"copied {found} of {self.fed // PARTITIONS} after: {after}")
        finally:
            reader.close()

    def stable(self, after):
        """The last stable offset reaches the end: no transaction hangs."""
        found = None

        def reached():
            nonlocal found
            wanted = dict.fromkeys([*OUT, *OFFSETS], LATEST_TIME)
            try:
                ends = resolve_offsets(self.client, wanted, timeout_s=10)
                found = resolve_offsets(self.client, wanted, read_committed=True, timeout_s=10)
            except ZkbrokerError as error:
                found = error
                return False
            return ends == found

        # A hanging transaction never ends; the rest may be slow on a busy machine.
        assert wait_until(reached, TIMEOUT_S + CHECK_S + 60), (
            f"a transaction hangs after: {after}: {found}"
        )

    # -- readers

    def read(self):
        """Read committed messages with librdkafka; return them by partition."""
        found = {number: [] for number in range(PARTITIONS)}
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        reader.assign([TopicPartition(*key, 0) for key in OUT])
        ended = set()
        while len(ended) < PARTITIONS:
            message = reader.poll(30)
            assert message is not None, "the reader makes no progress"
            if message.error():
                ended.add(message.partition())
            else:
                found[message.partition()].append(int(message.value()))
        reader.close()
        return found

    def read_by_ours(self):
        found = read_all(self.servers, "out", COMMITTED)
        return {number: [int(each.value) for each in row] for number, row in found.items()}


def play(directory, seed, rounds):
    settings = {
        "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
        "transaction.state.log.num.partitions": str(COORDINATED),
        "transaction.state.log.replication.factor": str(BROKERS),
        "offsets.topic.num.partitions": str(COORDINATED),
        "offsets.topic.replication.factor": str(BROKERS),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(int(CHECK_S * 1000)),
    }
    with TestCluster(
        BROKERS, replication=BROKERS, properties=settings, directory=directory
    ) as cluster:
        playing = Rounds(seed, cluster)
        try:
            playing.watch()
            for number in range(rounds):
                playing.play(number)
            expected = {
                number: list(range(number, playing.fed, PARTITIONS)) for number in range(PARTITIONS)
            }
            assert playing.read() == expected
            assert playing.read_by_ours() == expected
        finally:
            playing.close()
        return playing


def test_each_input_is_copied_exactly_once_under_faults(tmp_path):
    play(tmp_path, seed=1, rounds=3)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
def test_each_input_is_copied_exactly_once_in_100_rounds(seed, tmp_path):
    """Some programs are also replaced because they end by themselves, as zombies do."""
    rounds = soak.part_of(100)
    played = play(tmp_path, seed=100 + seed + soak.SEED, rounds=rounds)
    # A few rounds may see none.
    assert played.replaced > 0 or rounds < 50
