"""Groups of genuine clients, alone and together with `GroupConsumer`: join, leave, crash."""

import contextlib
import uuid

import pytest

from tests.support.brokers import MortalBroker
from tests.support.group_members import (
    KINDS,
    OLD_KAFKA_PYTHON,
    MemberProcess,
    check_nothing_was_held_twice,
    wait_until_read,
    wait_until_shared,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest, ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime

PARTITIONS = 6
SESSION_MS = 10_000
"""A member that is not heard for so long counts as crashed, and a busy machine takes seconds."""

needs_old = pytest.mark.skipif(
    not OLD_KAFKA_PYTHON.exists(), reason="kafka-python 2.0.2 is not installed beside"
)


# Kafka waits 3 s for the first members of a group. kafka-python 3 needs some of that: a leader that
# joins before the topic's metadata has come assigns nothing, joins again when it has come, and if
# `poll` runs out of time inside that second join, the assignment it brings is never applied and
# heartbeats stay off (3.0.12; the log of such a member shows one more answer to SyncGroup than
# "Setting newly assigned").
GATHERING_MS = 300


def make_broker(zookeeper, directory):
    return MortalBroker(
        directory,
        {
            "broker.id": "0",
            "zookeeper.connect": f"{zookeeper.connect_string}/groups-{uuid.uuid4().hex[:8]}",
            "group.initial.rebalance.delay.ms": str(GATHERING_MS),
            "group.min.session.timeout.ms": "500",
            "offsets.topic.num.partitions": "3",
        },
    )


@pytest.fixture(scope="module")
def groups_broker(zookeeper, tmp_path_factory):
    process = make_broker(zookeeper, tmp_path_factory.mktemp("groups-broker"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def own_broker(zookeeper, tmp_path):
    process = make_broker(zookeeper, tmp_path)
    process.start()
    yield process
    process.kill()


class Scene:
    """A topic, a group, and its members."""

    def __init__(self, broker, strategy, session_ms):
        host, port = broker.address
        self.address = f"{host}:{port}"
        self.strategy = strategy
        self.session_ms = session_ms
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.connect()
        made = self.connection.request(
            CreateTopicsRequest(topics=[NewTopic(self.topic, PARTITIONS, 1)])
        )
        assert made.topics[0].error_code == 0
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.all = []
        self.here = []

    def connect(self):
        host, _, port = self.address.rpartition(":")
        self.connection = BrokerConnection(get_runtime("threads"), host, int(port))

    def join(self, *kinds):
        members = [
            MemberProcess(
                kind, self.address, self.group, self.topic, self.strategy, self.session_ms
            )
            for kind in kinds
        ]
        self.all += members
        self.here += members
        wait_until_shared(self.here, PARTITIONS)
        return members

    def leave(self, member):
        self.here.remove(member)
        member.leave()
        wait_until_shared(self.here, PARTITIONS)

    def crash(self, member):
        self.here.remove(member)
        member.crash()
        wait_until_shared(self.here, PARTITIONS)

    def join_leave_and_crash(self, first_kind, kind):
        """Two join, the first leaves, a third joins, the second crashes; all is read throughout."""
        first, second = self.join(first_kind, kind)
        self.produce()
        self.leave(first)
        self.produce()
        (third,) = self.join(kind)
        self.produce()
        self.crash(second)
        self.produce()
        assert third.held == set(range(PARTITIONS))

    def produce(self, each=20):
        """Produce to every partition, and wait until everything has been read."""
        for number in range(PARTITIONS):
            data = encode_message_set([(None, b"%d" % n, -1, ()) for n in range(each)])
            request = ProduceRequest(
                topics=[ProduceRequestTopic(self.topic, [ProduceRequestPartition(number, data)])]
            )
            answer = self.connection.request(request).topics[0].partitions[0]
            assert answer.error_code == 0
            self.ends[number] += each
        wait_until_read(self.all, self.ends)

    def close(self):
        for member in list(self.here):
            self.here.remove(member)
            member.leave()
        self.connection.close()


@contextlib.contextmanager
def scene_of(broker, strategy="range", session_ms=SESSION_MS):
    scene = Scene(broker, strategy, session_ms)
    try:
        yield scene
        scene.close()
        check_nothing_was_held_twice(scene.all)
    finally:
        for member in scene.here:
            member.process.kill()


# these two are in the groups of all libraries below as well
ALSO_SHOWN_IN_MIXED_GROUPS = {"kafka-python-2.0.2-as-0.10", "kafka-python-2.0.2-as-0.11"}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            kind,
            marks=[
                *([needs_old] if old else []),
                *([pytest.mark.soak] if kind in ALSO_SHOWN_IN_MIXED_GROUPS else []),
            ],
        )
        for kind, (_, _, old) in KINDS.items()
    ],
)
def test_members_of_one_library_join_leave_and_crash(groups_broker, kind):
    with scene_of(groups_broker) as scene:
        scene.join_leave_and_crash(kind, kind)


@needs_old
@pytest.mark.parametrize("strategy", ["range", pytest.param("roundrobin", marks=pytest.mark.soak)])
def test_members_of_all_libraries_share_one_group(groups_broker, strategy):
    with scene_of(groups_broker, strategy) as scene:
        # a member a partition: one of the three levels of the old kafka-python stays out
        members = scene.join(*(kind for kind in KINDS if kind != "kafka-python-2.0.2-as-0.9"))
        assert all(len(member.held) == 1 for member in members)
        scene.produce()
        scene.crash(members[0])
        scene.produce()
        scene.leave(members[3])
        scene.produce()
        (late,) = scene.join("zkbroker")
        assert late.held
        scene.produce()


def test_sticky_members_of_two_libraries_keep_partitions(groups_broker):
    # no member crashes, so a long timeout does no harm: a slow machine must not look like a crash
    with scene_of(groups_broker, "sticky", session_ms=30_000) as scene:
        # The first member leads. Ours reads what members of both libraries held; kafka-python puts
        # a version before it that Java's members do not write, so that it reads only its own.
        (first,) = scene.join("zkbroker")
        second, third = scene.join("kafka-python", "zkbroker")
        before = {member: set(member.held) for member in (first, second, third)}
        assert all(len(held) == 2 for held in before.values())
        scene.produce()
        scene.leave(third)
        assert before[first] < first.held
        assert before[second] < second.held
        scene.produce()


@needs_old
def test_members_of_all_libraries_survive_kill_of_coordinator(own_broker):
    with scene_of(own_broker) as scene:
        scene.join("zkbroker", "confluent", "kafka-python", "kafka-python-2.0.2-as-0.10")
        scene.produce()
        for _ in range(2):
            own_broker.kill()
            own_broker.start()
            scene.connect()
            scene.produce()
        wait_until_shared(scene.here, PARTITIONS)
