"""Controllers of real broker processes on a real ZooKeeper: leaders after starts, stops and kills.

The replicas do not have to copy anything here: the tests check what the controller decides, stores
and sends. ISRs are kept from shrinking by a long `replica.lag.time.max.ms`.
"""

import json
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_requests import message_set, metadata, produce
from tests.support.brokers import MortalBroker, connect
from tests.support.process import eventually
from zkbroker.cluster.process import BrokerProcess
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    ElectPreferredLeadersRequest,
    MetadataRequest,
    UpdateMetadataRequest,
)
from zkbroker.protocol.messages.elect_preferred_leaders import ElectPreferredLeadersTopic
from zkbroker.registry import paths, topics
from zkbroker.registry.controller_election import controller_epoch, current_controller
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.zookeeper import Create, Delete, SetData, ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

Brokers = dict[int, BrokerProcess]
BROKERS = (0, 1, 2)


@pytest.fixture(scope="module")
def chroot(zookeeper: EmbeddedZooKeeper) -> str:
    """The tree of the brokers that the tests share; each test has topics of its own."""
    return f"{zookeeper.connect_string}/controllers-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def shared(chroot: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    directory = tmp_path_factory.mktemp("controllers")
    processes = {
        broker: MortalBroker(
            directory / str(broker),
            {
                "broker.id": str(broker),
                "zookeeper.connect": chroot,
                "log.index.size.max.bytes": "4096",
                "replica.lag.time.max.ms": "600000",
                "controlled.shutdown.retry.backoff.ms": "200",
                "auto.leader.rebalance.enable": "false",
            },
        )
        for broker in BROKERS
    }
    yield processes
    # A clean stop would move all partitions first.
    for process in processes.values():
        process.kill()


@pytest.fixture
def brokers(shared: Brokers, zk: ZkSession) -> Brokers:
    """All three brokers, running and with a controller."""
    for process in shared.values():
        if not process.alive:
            process.start()
    eventually(lambda: current_controller(zk) is not None)
    return shared


@pytest.fixture
def t(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return f"t{zlib.crc32(request.node.name.encode())}"


def stored(zk: ZkSession, topic: str, number: int = 0) -> LeaderAndIsr:
    return PartitionStates(zk).read([(topic, number)])[topic, number]


def led_by(zk: ZkSession, topic: str, *leaders: int) -> bool:
    """Whether the partitions have these leaders, each registered by its own session."""
    for number, leader in enumerate(leaders):
        state = PartitionStates(zk).read([(topic, number)]).get((topic, number))
        if state is None or state.leader != leader:
            return False
        registered = zk.exists(paths.partition_state(topic, number))
        broker = zk.exists(paths.broker(leader))
        if registered is None or broker is None:
            return False
        if registered.ephemeral_owner != broker.ephemeral_owner:
            return False
    return True


def announced(process: BrokerProcess, topic: str) -> dict[int, tuple[int, int]]:
    """Leader and leader epoch of each partition, in the metadata of a broker."""
    with connect(process) as connection:
        answer = connection.request(MetadataRequest([topic], allow_auto_topic_creation=False), 7)
    return {
        p.partition: (p.leader, p.leader_epoch if p.leader >= 0 else -1)
        for p in answer.topics[0].partitions
    }


def make(zk: ZkSession, topic: str, *replicas: list[int]) -> None:
    topics.create_topic(zk, topic, dict(enumerate(replicas)))


def test_first_replicas_lead_and_every_broker_knows_them(
    brokers: Brokers, zk: ZkSession, t: str
) -> None:
    make(zk, t, [0, 1, 2], [1, 2, 0], [2])
    eventually(lambda: led_by(zk, t, 0, 1, 2))
    assert stored(zk, t, 1).isr == (1, 2, 0)
    for process in brokers.values():
        eventually(
            lambda process=process: announced(process, t) == {0: (0, 0), 1: (1, 0), 2: (2, 0)}
        )
    data, _ = zk.get(paths.partition_state(t, 0))
    assert json.loads(data) == json.loads(zk.get(paths.partition(t, 0))[0])


def test_killed_leader_is_replaced_and_rejoins(brokers: Brokers, zk: ZkSession, t: str) -> None:
    make(zk, t, [1, 2, 0], [1])
    eventually(lambda: led_by(zk, t, 1, 1))
    brokers[1].kill()
    eventually(lambda: led_by(zk, t, 2))
    eventually(lambda: stored(zk, t, 1).leader == -1)
    assert stored(zk, t).leader_epoch == 1
    assert stored(zk, t).isr == (2, 0)
    assert stored(zk, t, 1).isr == (1,), "the last replica in sync"
    eventually(lambda: announced(brokers[0], t) == {0: (2, 1), 1: (-1, -1)})
    with connect(brokers[0]) as connection:
        lost = metadata(connection, t, 7).partitions[1]
        refused = produce(connection, t, message_set(2, [b"v"]), partition=0)
    assert lost.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (lost.isr, lost.offline_replicas) == ([], [1])
    assert refused.error_code == ErrorCode.NOT_LEADER_FOR_PARTITION
    brokers[1].start()
    eventually(lambda: led_by(zk, t, 2, 1))
    eventually(lambda: announced(brokers[1], t) == {0: (2, 1), 1: (1, 2)})
    assert zk.exists(paths.partition_state(t, 1)) is not None


def test_next_controller_takes_over(brokers: Brokers, zk: ZkSession, t: str) -> None:
    make(zk, t, [0, 1, 2], [1, 2, 0], [2, 0, 1])
    eventually(lambda: led_by(zk, t, 0, 1, 2))
    epoch = controller_epoch(zk)
    first = current_controller(zk)
    assert first is not None
    brokers[first].kill()
    # While there is none, another topic is asked for.
    make(zk, f"{t}u", [(first + 1) % 3, first])
    eventually(lambda: current_controller(zk) not in (None, first))
    assert controller_epoch(zk) == epoch + 1
    eventually(lambda: stored(zk, t, first).leader not in (-1, first))
    eventually(lambda: led_by(zk, f"{t}u", (first + 1) % 3))
    assert stored(zk, t, first).controller_epoch == epoch + 1
    assert stored(zk, f"{t}u").isr == ((first + 1) % 3,)
    brokers[first].start()
    leader = stored(zk, t, first).leader
    eventually(lambda: announced(brokers[first], t).get(first, (-1, 0))[0] == leader)


def test_request_on_old_controller_connection_is_refused(brokers: Brokers, zk: ZkSession) -> None:
    eventually(lambda: current_controller(zk) is not None)
    # The controller of this test; no broker has its id.
    epoch = controller_epoch(zk) + 1
    elected = json.dumps({"version": 1, "brokerid": 99, "timestamp": "0"}).encode()
    zk.transaction(
        [
            Delete(paths.CONTROLLER),
            Create(paths.CONTROLLER, elected, ephemeral=True),
            SetData(paths.CONTROLLER_EPOCH, str(epoch).encode()),
        ]
    )
    request = UpdateMetadataRequest(99, epoch)
    with connect(brokers[0]) as left, connect(brokers[0]) as later:
        codes = [each.request(request, 4).error_code for each in (left, later, left, later)]
    zk.delete(paths.CONTROLLER)  # for brokers that stop look for one
    assert codes == [0, 0, ErrorCode.STALE_CONTROLLER_EPOCH, 0]


def test_clean_stop_moves_leaderships_first(brokers: Brokers, zk: ZkSession, t: str) -> None:
    make(zk, t, [1, 2, 0], [0, 1], [1])
    eventually(lambda: led_by(zk, t, 1, 0, 1))
    brokers[1].stop()
    assert (stored(zk, t, 0).leader, stored(zk, t, 0).leader_epoch) == (2, 1)
    assert stored(zk, t, 1).isr == (0,)
    eventually(lambda: stored(zk, t, 2).leader == -1)
    brokers[1].start()
    eventually(lambda: led_by(zk, t, 2, 0, 1))


def test_last_clean_stop_leaves_persistent_state_and_epochs_continue(
    brokers: Brokers, zk: ZkSession, t: str
) -> None:
    make(zk, t, [0, 1, 2], [2])
    eventually(lambda: led_by(zk, t, 0, 2))
    for broker in (0, 1, 2):
        brokers[broker].stop()
    data, stat = zk.get(paths.partition_state(t, 0))
    assert stat.ephemeral_owner == 0
    left = json.loads(data)
    assert (left["leader"], left["isr"]) == (2, [2])
    assert zk.get(paths.TOPICS)[0] == b""
    brokers[0].start()
    eventually(lambda: current_controller(zk) == 0)
    time.sleep(1)
    assert stored(zk, t).leader in (-1, 2), "broker 0 was not in sync at the end"
    brokers[2].start()
    eventually(lambda: led_by(zk, t, 2, 2))
    assert stored(zk, t).leader_epoch > left["leader_epoch"]
    brokers[1].start()


def test_preferred_leaders_are_elected_by_znode_and_by_request(
    brokers: Brokers, zk: ZkSession, t: str
) -> None:
    make(zk, t, [0, 1, 2], [0, 2, 1])
    eventually(lambda: led_by(zk, t, 0, 0))
    # As after a failure, with everybody in sync again.
    states = PartitionStates(zk)
    version = zk.exists(paths.CONTROLLER_EPOCH).version  # type: ignore[union-attr]
    moved = {}
    for key, state in states.read([(t, 0), (t, 1)]).items():
        moved[key] = LeaderAndIsr(
            1, state.leader_epoch + 1, state.isr, state.controller_epoch, state.zk_version
        )
    assert states.write(moved, version).keys() == moved.keys()
    asked = {"version": 1, "partitions": [{"topic": t, "partition": 0}]}
    zk.create(paths.PREFERRED_REPLICA_ELECTION, json.dumps(asked).encode())
    eventually(lambda: zk.exists(paths.PREFERRED_REPLICA_ELECTION) is None)
    # The controller did not know of the move, and found it out.
    zk.delete(paths.CONTROLLER)
    eventually(lambda: current_controller(zk) is not None)
    controller = current_controller(zk)
    assert controller is not None
    wanted = [ElectPreferredLeadersTopic(t, [0, 1]), ElectPreferredLeadersTopic("x", [0])]
    with connect(brokers[controller]) as connection:
        eventually(
            lambda: (
                {
                    (topic.topic, each.partition): each.error_code
                    for topic in connection.request(
                        ElectPreferredLeadersRequest(wanted, 10_000), 0
                    ).topics
                    for each in topic.partitions
                }
                == {(t, 0): 0, (t, 1): 0, ("x", 0): 3}
            )
        )
    other = next(each for each in brokers if each != controller)
    with connect(brokers[other]) as connection:
        assert connection.best_version(ApiKey.ELECT_PREFERRED_LEADERS) == 0, "it is announced"
        answer = connection.request(ElectPreferredLeadersRequest(None, 10_000))
        found = {
            (topic.topic, each.partition): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        assert found[t, 0] == found[t, 1] == ErrorCode.NOT_CONTROLLER
        assert set(found.values()) == {ErrorCode.NOT_CONTROLLER}
    eventually(lambda: led_by(zk, t, 0, 0))


def test_mixed_protocol_levels_are_logged(brokers: Brokers, chroot: str, tmp_path: Path) -> None:
    old = MortalBroker(
        tmp_path,
        {
            "broker.id": "8",
            "zookeeper.connect": chroot,
            "inter.broker.protocol.version": "0.8.2",
            "log.message.format.version": "0.8.2",
        },
    )
    old.start()
    try:
        eventually(
            lambda: (
                "=0.8.2 here, but brokers [0, 1, 2] have a later one" in old.log_path.read_text()
            )
        )
        for each in brokers.values():
            eventually(lambda each=each: "but brokers [8] have 0.8.2" in each.log_path.read_text())
    finally:
        old.stop()


@pytest.mark.parametrize("count", [300, pytest.param(999, marks=pytest.mark.soak)])
def test_many_partitions_get_new_leaders_after_kill(
    brokers: Brokers, zk: ZkSession, t: str, count: int
) -> None:
    make(zk, t, *([n % 3, (n + 1) % 3] for n in range(count)))

    def led(*leaders: int) -> bool:
        found = PartitionStates(zk).read([(t, n) for n in range(count)])
        return len(found) == count and all(s.leader in leaders for s in found.values())

    eventually(lambda: led(*BROKERS))
    brokers[0].kill()
    eventually(lambda: led(1, 2))
    moved = PartitionStates(zk).read([(t, n) for n in range(0, count, 3)])
    assert {state.leader_epoch for state in moved.values()} == {1}
