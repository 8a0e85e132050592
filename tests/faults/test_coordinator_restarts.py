"""The coordinator's broker is killed and restarted under a working group.

Members keep their generation, as a restart takes less than their session timeout; acknowledged
offsets stay committed, no other offset is committed, and every message is delivered.
"""

import random
import threading
import time
import uuid
from contextlib import contextmanager

import pytest

from tests.support import soak
from tests.support.broker_requests import produce
from tests.support.brokers import MortalBroker, connect
from tests.support.process import wait_until
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import CommitFailed, GroupConsumer
from zkbroker.errors import ProtocolError
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
)
from zkbroker.protocol.messages.offsets import OffsetFetchRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import encode_message_set

PARTITIONS = 4
TOPIC = "t"
GROUP = "g"
# Longer than any restart on a busy machine: `BrokerProcess.start` times out before.
SESSION_MS = 120_000
PATIENCE_S = 120


class Member:
    """A consumer in a thread that commits each message it reads, and records its commits."""

    def __init__(self, address, commits):
        self.commits = commits
        self.consumer = GroupConsumer(
            GroupConsumerConfig(
                bootstrap_servers=(address,),
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=100,
                fetch_max_wait_ms=50,
                request_timeout_ms=5_000,
            )
        )
        self.failure = None
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        try:
            self.consumer.subscribe([TOPIC])
            while not self.commits.stopping.is_set():
                try:
                    self._read_some()
                except (ProtocolError, CommitFailed):
                    continue  # the broker is away, or the group has rebalanced: poll again
            self.consumer.close()
        except BaseException as error:
            self.failure = error
            raise

    def _read_some(self):
        messages = self.consumer.poll(0.05, max_records=5)
        for message in messages:
            self.commits.read.add((message.partition, message.offset))
        if not messages:
            return
        offsets = {(TOPIC, m.partition): m.offset + 1 for m in messages}
        with self.commits.committing(offsets):
            self.consumer.commit(offsets, timeout_s=0.3)


class Commits:
    """The offsets whose commit was requested, and those whose commit was acknowledged."""

    def __init__(self):
        self.stopping = threading.Event()
        self.open = threading.Event()  # commits may be sent
        self.open.set()
        self.read = set()
        self.acknowledged = {}
        self.uncertain = {}
        self._lock = threading.Lock()
        self._busy = 0

    @contextmanager
    def committing(self, offsets):
        """Record the commit that the block requests; it is acknowledged when the block succeeds."""
        while not self.open.wait(0.1):
            if self.stopping.is_set():
                raise CommitFailed("stopping")
        with self._lock:
            self._busy += 1
            for (_, number), offset in offsets.items():
                self.uncertain.setdefault(number, []).append(offset)
        try:
            yield
            with self._lock:
                for (_, number), offset in offsets.items():
                    self.acknowledged[number] = offset
                    # an acknowledged commit comes after all commits requested before
                    self.uncertain[number] = []
        finally:
            with self._lock:
                self._busy -= 1

    @property
    def idle(self):
        return self._busy == 0

    def allowed(self, partition):
        """The offsets that may be found committed."""
        return {self.acknowledged.get(partition, -1), *self.uncertain.get(partition, ())}


def committed(broker):
    topics = [OffsetFetchRequestTopic(TOPIC, list(range(PARTITIONS)))]
    with connect(broker) as connection:
        found = {}

        def loaded():
            answer = connection.request(OffsetFetchRequest(GROUP, topics))
            if answer.error_code == 0:
                found.update((p.partition, p.offset) for p in answer.topics[0].partitions)
            return bool(found)

        assert wait_until(loaded, PATIENCE_S)
        return found


def produce_to_all(broker, each):
    data = encode_message_set([(None, b"x", -1, ())] * each)
    with connect(broker) as connection:
        for number in range(PARTITIONS):
            assert produce(connection, TOPIC, data, partition=number).error_code == 0


@pytest.fixture
def broker(zookeeper, tmp_path):
    process = MortalBroker(
        tmp_path,
        {
            "broker.id": "0",
            "zookeeper.connect": f"{zookeeper.connect_string}/restarts-{uuid.uuid4().hex[:8]}",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
        },
    )
    process.start()
    yield process
    process.kill()


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_nothing_acknowledged_is_lost_when_the_coordinator_is_killed(broker, rounds):
    rng = random.Random(rounds + soak.SEED)
    with connect(broker) as connection:
        connection.request(CreateTopicsRequest(topics=[NewTopic(TOPIC, PARTITIONS, 1)]))
        connection.request(FindCoordinatorRequest(GROUP))
    commits = Commits()
    members = [Member("{}:{}".format(*broker.address), commits) for _ in range(2)]
    each = 30
    try:
        assert wait_until(
            lambda: sorted(len(m.consumer.assignment()) for m in members) == [2, 2], PATIENCE_S
        )
        for number in range(1, soak.part_of(rounds) + 1):
            generations = [m.consumer.generation for m in members]
            produce_to_all(broker, each)
            time.sleep(rng.uniform(0, 0.15))  # at any point of the work
            broker.kill()
            commits.open.clear()
            assert wait_until(lambda: commits.idle, PATIENCE_S)
            broker.start()
            found = committed(broker)
            for partition in range(PARTITIONS):
                assert found[partition] in commits.allowed(partition), (
                    number,
                    partition,
                    found,
                    commits.acknowledged,
                    commits.uncertain,
                )
                # the offset that was found is certain from here on
                commits.acknowledged[partition] = found[partition]
                commits.uncertain[partition] = []
            commits.open.set()
            wanted = {(p, o) for p in range(PARTITIONS) for o in range(number * each)}
            assert wait_until(lambda wanted=wanted: wanted <= commits.read, PATIENCE_S), (
                sorted(wanted - commits.read)[:10],
                [m.failure for m in members],
                broker.log_tail(),
            )
            assert generations == [m.consumer.generation for m in members], number
    finally:
        commits.stopping.set()
        commits.open.set()
        for member in members:
            member.thread.join(PATIENCE_S)
    assert [m.failure for m in members] == [None, None]
