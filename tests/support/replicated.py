"""Replicated clusters whose network can be cut, and their state in ZooKeeper and on the disks.

Every topic has three replicas, and acks=all needs two of them. Brokers reach each other and the
ZooKeeper servers through proxies, and clients reach the brokers through proxies, too.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.proxy import Proxy
from tests.support.zookeeper_quorum import EmbeddedQuorum
from zkbroker.cluster import BrokerProcess
from zkbroker.errors import RegistryError
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics import assignment
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import free_port

SESSION_S = 3.0
PROPERTIES = {
    "zookeeper.session.timeout.ms": str(int(SESSION_S * 1000)),
    # A machine under load may need long for the first answer.
    "zookeeper.connection.timeout.ms": "30000",
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": "1000000",
}
START_TIMEOUT_S = 180.0
"""A machine under load may need long for a start."""
_OWN_SESSION_MS = 30_000
_POLL_S = 0.05


class Network:
    """The proxies between the brokers, and between each of them and each ZooKeeper server."""

    def __init__(self, zookeeper_ports: list[int], stack: ExitStack) -> None:
        self._stack = stack
        self._zookeeper_ports = zookeeper_ports
        self.brokers: dict[int, Proxy] = {}
        self.zookeepers: dict[int, list[Proxy]] = {}

    def make_broker(self, directory: Path, properties: Any) -> BrokerProcess:
        number, port = int(properties["broker.id"]), free_port()
        self.brokers[number] = self._stack.enter_context(Proxy(port))
        self.zookeepers[number] = [
            self._stack.enter_context(Proxy(each)) for each in self._zookeeper_ports
        ]
        return BrokerProcess(
            directory,
            {
                **properties,
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "advertised.host.name": "127.0.0.1",
                "advertised.port": str(self.brokers[number].port),
                "zookeeper.connect": ",".join(
                    f"127.0.0.1:{each.port}" for each in self.zookeepers[number]
                ),
            },
        )

    def cut_brokers(self, one: int, other: int) -> None:
        self.brokers[one].cut(other)
        self.brokers[other].cut(one)

    def cut_zookeeper(self, broker: int) -> None:
        for each in self.zookeepers[broker]:
            each.cut()

    def heal(self) -> None:
        for each in (*self.brokers.values(), *(p for ps in self.zookeepers.values() for p in ps)):
            each.heal()


class Replicas:
    """The replicas of a cluster's topics: their states in ZooKeeper and their logs on the disks.

    Args:
        cluster: a running cluster.
        session: a session at its ZooKeeper.
        topics: name -> number of partitions of the topics, which are created here.
    """

    def __init__(
        self, cluster: LocalCluster, session: ZkSession, topics: Mapping[str, int]
    ) -> None:
        self.cluster = cluster
        self.session = session
        self.ids = sorted(each.id for each in cluster.brokers)
        for topic, count in topics.items():
            cluster.create_topic(topic, partitions=count)
        self.replicas = {
            (topic, number): set(found)
            for topic in topics
            for number, found in (assignment(session, topic) or {}).items()
        }
        self._states = PartitionStates(session, StateForm.EPHEMERAL)
        eventually(self.in_sync, "all in sync")

    def decided(self) -> dict[tuple[str, int], LeaderAndIsr]:
        return self._states.read(self.replicas)

    def in_sync(self) -> bool:
        states = self.decided()
        return all(
            key in states and set(states[key].isr) == found and states[key].leader in found
            for key, found in self.replicas.items()
        )

    def victim(self, fault: str, rng: random.Random) -> int:
        """Choose the broker for a fault: the controller, or a random leader."""
        eventually(self.in_sync, f"all in sync before {fault}")
        if "controller" in fault:
            found = current_controller(self.session)
            return found if found is not None else rng.choice(self.ids)
        return rng.choice([each.leader for each in self.decided().values()])

    def registered(self, broker_id: int) -> bool:
        return broker_id in list_brokers(self.session)

    def moved_off(self, broker_id: int) -> bool:
        return all(each.leader not in (broker_id, -1) for each in self.decided().values())

    def different_logs(self) -> list[str]:
        """Return the partitions whose replicas differ in the bytes of their log files."""
        return [
            f"{topic}-{number}"
            for (topic, number), found in sorted(self.replicas.items())
            if len({self.log_bytes(each, topic, number) for each in found}) != 1
        ]

    def log_files(self, broker_id: int, topic: str, number: int) -> list[Path]:
        data = self.cluster.broker(broker_id).data_directory
        return sorted((data / f"{topic}-{number}").glob("*.log"))

    def log_bytes(self, broker_id: int, topic: str, number: int) -> bytes:
        return b"".join(path.read_bytes() for path in self.log_files(broker_id, topic, number))


class ReplicatedCluster(Replicas):
    """The cluster with its network and its ZooKeeper servers."""

    def __init__(
        self,
        cluster: LocalCluster,
        session: ZkSession,
        topics: Mapping[str, int],
        network: Network,
        quorum: EmbeddedQuorum,
    ) -> None:
        super().__init__(cluster, session, topics)
        self.network = network
        self.quorum = quorum


@dataclass
class Failover:
    """The duration of a change of leaders, in seconds.

    Args:
        noticed_s: until the broker's registration ended; 0 at a controlled shutdown.
        led_s: from then on until other brokers led all its partitions.
    """

    noticed_s: float
    led_s: float


def time_failover(replicated: ReplicatedCluster, broker_id: int, *, controlled: bool) -> Failover:
    """Wait until a broker leads no partition any more.

    Args:
        replicated: the cluster.
        broker_id: the broker that has just failed or begun to stop.
        controlled: whether it hands over its leaderships in a controlled shutdown.
    """
    started = time.monotonic()
    if not controlled:
        eventually(
            lambda: not replicated.registered(broker_id), f"{broker_id} loses its registration"
        )
    noticed = time.monotonic()
    eventually(lambda: replicated.moved_off(broker_id), f"other leaders than {broker_id}")
    return Failover(noticed - started, time.monotonic() - noticed)


def eventually(condition: Callable[[], bool], description: str, timeout_s: float = 180) -> None:
    """Wait for a condition, even while ZooKeeper does not respond."""
    deadline = time.monotonic() + timeout_s

    def holds() -> bool:
        try:
            return condition()
        except RegistryError:
            return False

    while not holds():
        assert time.monotonic() < deadline, f"not in time: {description}"
        time.sleep(_POLL_S)


@contextmanager
def replicated_cluster(
    directory: Path, topics: dict[str, int], brokers: int = 3, **properties: object
) -> Iterator[ReplicatedCluster]:
    """Start brokers on three ZooKeeper servers, and wait until all replicas are in sync.

    Args:
        directory: where data and logs go.
        topics: name -> number of partitions.
        brokers: the number of brokers.
        properties: overrides of `PROPERTIES`; `_` stands for `.` in their names.
    """
    given = {key.replace("_", "."): str(value) for key, value in properties.items()}
    with ExitStack() as stack:
        quorum = stack.enter_context(EmbeddedQuorum())
        network = Network([each.port for each in quorum.servers], stack)
        cluster = LocalCluster(
            brokers,
            properties={**PROPERTIES, **given},
            replication=3,
            zookeeper=quorum.connect_string,
            directory=directory,
        )
        cluster._make_broker = network.make_broker
        stack.enter_context(cluster)
        session = stack.enter_context(
            ZkSession(cluster.zookeeper, session_timeout_ms=_OWN_SESSION_MS)
        )
        yield ReplicatedCluster(cluster, session, topics, network, quorum)
