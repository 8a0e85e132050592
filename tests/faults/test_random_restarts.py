"""Topics with one replica on three brokers that are killed, stopped and restarted at random.

The controller is restarted, too. At any moment a partition has no leader or its assigned broker;
controller and leader epochs only grow; at the end all partitions are led, and each acknowledged
message is at its acknowledged offset.
"""

import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import soak
from tests.support.brokers import connect
from tests.support.clusters import TestCluster
from tests.support.reading import read_all
from tests.support.replicated import START_TIMEOUT_S, eventually
from zkbroker.admin.topics import create_topic
from zkbroker.client.list_offsets import LATEST_TIME, list_offsets
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ProtocolError, RegistryError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.producer.errors import Undelivered
from zkbroker.registry.controller_election import controller_epoch, current_controller
from zkbroker.registry.partition_states import NO_LEADER, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics import assignments
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

BROKERS = (1, 2, 3)
PROPERTIES = {
    "zookeeper.connection.timeout.ms": "30000",
    "log.index.size.max.bytes": "4096",
    # The offsets topic is not needed.
    "offsets.topic.num.partitions": "1",
}
_STARTS_AT_ONCE = 8


class Sender(threading.Thread):
    """Sends numbers to all topics in turn until `over` is set."""

    def __init__(self, cluster: LocalCluster, topics: list[str]) -> None:
        super().__init__(name="send")
        self.topics = topics
        self.sent: list[tuple[str, bytes, Any]] = []
        self.over = threading.Event()
        self._config = ProducerConfig.from_properties(
            {
                "zookeeper.connect": cluster.zookeeper,
                "producer.type": "async",
                "request.required.acks": "-1",
                "message.send.max.retries": "10000",
                "queue.buffering.max.ms": "5",
                "request.timeout.ms": "10000",
                "delivery.timeout.ms": "300000",
            }
        )

    def acknowledged(self, count: int) -> bool:
        """Return whether the first `count` messages are acknowledged."""
        return len(self.sent) >= count and all(each.done() for *_, each in self.sent[:count])

    def run(self) -> None:
        # Messages that were not delivered in time are not lost: they were not acknowledged.
        with contextlib.suppress(Undelivered), Producer(self._config) as producer:
            while not self.over.wait(0.05):
                for _ in range(10):
                    number = len(self.sent)
                    topic, value = self.topics[number % len(self.topics)], b"%d" % number
                    future = producer.send(KeyedMessage(topic, value, partition=0))
                    self.sent.append((topic, value, future))


class StateWatcher(threading.Thread):
    """Reads the stored states repeatedly, and collects broken rules in `faults`."""

    def __init__(self, session: ZkSession, assigned: dict[tuple[str, int], int]) -> None:
        super().__init__(name="watcher")
        self.over = threading.Event()
        self.faults: list[str] = []
        self.checks = 0
        self._session = session
        self._assigned = assigned
        self._states = PartitionStates(session, StateForm.EPHEMERAL)
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        self._controller_epoch = 0

    def run(self) -> None:
        while not self.over.wait(0.2):
            try:
                self._check_states()
            except RegistryError:
                continue  # the next check reads the same states

    def _check_states(self) -> None:
        # Read before the states: they are of this epoch or a later one.
        epoch = controller_epoch(self._session)
        if epoch < self._controller_epoch:
            self.faults.append(f"controller epoch {epoch} after {self._controller_epoch}")
        self._controller_epoch = epoch
        for key, state in self._states.read(self._assigned).items():
            now = state.leader_epoch, state.leader
            before = self._known.get(key, now)
            if state.leader not in (NO_LEADER, self._assigned[key]):
                self.faults.append(f"{key} is led by {state.leader}")
            if now[0] < before[0] or (now[0] == before[0] and now[1] != before[1]):
                self.faults.append(f"{key}: (epoch, leader) {now} after {before}")
            self._known[key] = now
        self.checks += 1

    def all_led(self) -> bool:
        states = self._states.read(self._assigned)
        return len(states) == len(self._assigned) and all(
            state.leader == self._assigned[key] for key, state in states.items()
        )

    def led_by(self, broker_id: int) -> bool:
        """Return whether a broker leads all partitions that are assigned to it."""
        mine = [key for key, broker in self._assigned.items() if broker == broker_id]
        return all(state.leader == broker_id for state in self._states.read(mine).values())


def restart_randomly(
    cluster: LocalCluster,
    watcher: StateWatcher,
    session: ZkSession,
    rng: random.Random,
    seconds: float,
) -> None:
    """Restart random brokers, and often the controller, for some time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        restarted = rng.choice([*BROKERS, current_controller(session) or 1])
        broker = cluster.broker(restarted)
        if rng.random() < 0.25:
            broker.stop(START_TIMEOUT_S)
        else:
            broker.kill()
        time.sleep(rng.choice([0, 0, rng.uniform(0, 8)]))
        broker.start(START_TIMEOUT_S)
        if rng.random() < 0.7:
            eventually(
                lambda restarted=restarted: watcher.led_by(restarted),
                f"{restarted} leads its partitions",
                START_TIMEOUT_S,
            )


@pytest.mark.parametrize(
    ("topics", "seconds", "seed"),
    [
        (20, 12, 1),
        pytest.param(1000, 600, 2, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_partitions_have_at_most_one_leader_and_keep_acknowledged_messages(
    tmp_path, topics, seconds, seed
):
    names = [f"t-{number}" for number in range(topics)]
    with (
        TestCluster(3, properties=PROPERTIES, directory=tmp_path) as cluster,
        ZkSession(cluster.zookeeper, session_timeout_ms=30_000) as session,
    ):
        with ThreadPoolExecutor(_STARTS_AT_ONCE) as pool:
            list(pool.map(lambda name: create_topic(session, name), names))
        assigned = {
            (name, 0): replicas[0][0] for name, replicas in assignments(session, names).items()
        }
        assert len(assigned) == topics
        watcher, sender = StateWatcher(session, assigned), Sender(cluster, names)
        eventually(watcher.all_led, "all topics are led", 300)
        watcher.start()
        sender.start()
        eventually(lambda: sender.acknowledged(topics), "every topic has a message", 300)
        try:
            restart_randomly(
                cluster, watcher, session, random.Random(seed + soak.SEED), soak.part_of(seconds)
            )
        finally:
            sender.over.set()
            eventually(watcher.all_led, "all topics are led at the end", START_TIMEOUT_S)
            sender.join()
            watcher.over.set()
            watcher.join()
        assert watcher.checks
        assert watcher.faults == []
        check_leaders(cluster, assigned)
        check_messages(cluster, sender)


def check_leaders(cluster: LocalCluster, assigned: dict[tuple[str, int], int]) -> None:
    """Check that ListOffsets succeeds exactly for the partitions that a broker leads."""
    for broker in cluster.brokers:
        with connect(broker) as connection:
            answers = list_offsets(connection, dict.fromkeys(assigned, LATEST_TIME))
        leads = {key for key, found in answers.items() if not isinstance(found, ProtocolError)}
        assert leads == {key for key, leader in assigned.items() if leader == broker.id}


def check_messages(cluster: LocalCluster, sender: Sender) -> None:
    wanted: dict[str, dict[int, bytes]] = {}
    for topic, value, future in sender.sent:
        if future.exception(0) is None:
            wanted.setdefault(topic, {})[future.result(0).offset] = value
    print(f"{sum(map(len, wanted.values()))} of {len(sender.sent)} messages acknowledged")
    for topic, values in wanted.items():
        stored = read_all(cluster, topic)[0]
        assert {offset: stored[offset] for offset in values} == values
