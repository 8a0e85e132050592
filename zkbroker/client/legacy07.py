"""Brokers, topics and partitions of a 0.7 cluster, kept current by watches on its registry.

    a watch fires ─▶ read again ─▶ publish ─▶ tell the watchers

A partition belongs to a broker for ever, and is away while its broker is: there is no leader to
look for, only a broker that is up or is not.

Invariant: what was read last is answered without waiting; while ZooKeeper is away it stays.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from zkbroker.client.view import BrokerAddress
from zkbroker.client.watchers import Watchers
from zkbroker.errors import LeaderNotAvailable, RegistryError
from zkbroker.registry import legacy07 as registry
from zkbroker.runtime import OwnerLoop, Runtime
from zkbroker.types import Partition07
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)


class Cluster07View:
    """A view of a 0.7 cluster; fits `client.view.Leaders`.

    Args:
        session: a session under the chroot of its registry; started and closed by the caller.
    """

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._brokers: Mapping[int, BrokerAddress] = {}
        self._topics: dict[str, tuple[Partition07, ...]] = {}
        self._readings = 0
        self._lock = self.runtime.lock()
        self._watchers = Watchers(self.runtime)
        self._loop = OwnerLoop(
            self.runtime,
            self._read,
            name="cluster07",
            logger=logger,
            foreseen=(RegistryError,),
            ready=session.wait_connected,
            ended=lambda: session.closed,
        )

    @property
    def runtime(self) -> Runtime:
        """What it runs on."""
        return self._session.runtime

    def start(self) -> Self:
        """Read the brokers, and keep them current.

        Raises:
            RegistryError: ZooKeeper does not answer, or the registry is none of 0.7.
        """
        self._read()
        self._loop.start()
        return self

    def close(self, timeout_s: float = 10.0) -> bool:
        """Watch no longer; False when that takes longer than `timeout_s`."""
        return self._loop.close(timeout_s)

    # -- what was read last

    def brokers(self) -> Mapping[int, BrokerAddress]:
        """Return the brokers that are up."""
        return self._brokers

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker of a `Partition07`, None while it is down; never waits."""
        assert isinstance(partition, Partition07)
        return partition.broker if partition.broker in self._brokers else None

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        """Return the error that says that the broker of a `Partition07` is down."""
        assert isinstance(partition, Partition07)
        return LeaderNotAvailable(
            f"{topic}-{partition}: broker {partition.broker} is not registered; start it"
        )

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change; returns what ends that."""
        return self._watchers.add(callback)

    # -- reading; waits for ZooKeeper

    def refresh(self, topics: Sequence[str] | None = None) -> None:
        """Read the brokers anew.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._read()

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        return registry.topics(self._session)

    def partitions(self, topic: str) -> tuple[Partition07, ...]:
        """Return the partitions of a topic on brokers that are up, in numeric order.

        Kept until something about the topic or the brokers changes.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        known = self._topics.get(topic)
        if known is None:
            reading = self._readings
            found = registry.partitions(self._session, topic, self._loop)
            known = tuple(each for each in found if each.broker in self._brokers)
            with self._lock:
                if reading == self._readings:
                    self._topics[topic] = known
        return known

    def _read(self) -> None:
        found = registry.brokers(self._session, self._loop)
        self._brokers = {
            broker: BrokerAddress(broker, host, port) for broker, (host, port) in found.items()
        }
        with self._lock:
            # Read again when they are asked for; the watches of those read before may be spent.
            self._readings += 1
            self._topics = {}
        self._watchers.tell()
