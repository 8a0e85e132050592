"""The parts of a broker that its handlers share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from zkbroker.broker.clients import ClientVersions
from zkbroker.broker.dialing import Dialing
from zkbroker.broker.dynamic_config import DynamicConfig
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.topics import Topics
from zkbroker.broker.user_settings import UserSettings
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.controller import ControllerMetrics
from zkbroker.errors import NotLeaderForPartition, UnknownTopicOrPartition
from zkbroker.log import LogManager
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.manager import ReplicaManager
from zkbroker.replica.partition import Partition
from zkbroker.replica.role import NO_EPOCH
from zkbroker.runtime import Runtime
from zkbroker.zookeeper import ZkSession

DECIDED_S = 1.0
"""How long a request waits for the controller's decisions, for all its partitions together."""


@dataclass(slots=True)
class Patience:
    """The time that one request may still wait for the controller's decisions.

    A request may name thousands of partitions, and holds one of the few slots while it waits.
    """

    until_ms: float | None = None
    """The end of all waits, on the runtime's clock; None before the first wait."""

    def left_s(self, now_ms: float) -> float:
        """Return how long the next wait may last; the first one sets the end of all."""
        if self.until_ms is None:
            self.until_ms = now_ms + DECIDED_S * 1000
        return max(0.0, self.until_ms - now_ms) / 1000


@dataclass(slots=True, kw_only=True)
class BrokerServices:
    """The parts of a running broker.

    Args:
        config: the present configuration; see `dynamic`.
        controller_id: the present controller, None while there is none.
        controller_metrics: metrics of this broker's controller; zeros while it is not elected.
        users: settings of users, clients and addresses in ZooKeeper.
        draining: whether waiting requests must be answered now, because the broker has handed over
            its leaderships and is about to close its connections.
    """

    config: BrokerConfig
    dynamic: DynamicConfig
    broker_id: int
    runtime: Runtime
    session: ZkSession
    logs: LogManager
    view: ClusterView
    dialing: Dialing
    replicas: ReplicaManager
    fetchers: FetcherManager
    topics: Topics
    metrics: BrokerMetrics
    clients: ClientVersions
    controller_id: Callable[[], int | None]
    controller_metrics: Callable[[], ControllerMetrics] = ControllerMetrics
    users: UserSettings = field(default_factory=UserSettings)
    draining: bool = False

    def partition(
        self,
        topic: str,
        number: int,
        patience: Patience | None = None,
        *,
        during_deletion: bool = False,
    ) -> Partition:
        """Return a partition that has a replica here, in whatever role.

        If the partition is assigned here, this waits for the controller's decision: other brokers
        may already know that this one leads it.

        Args:
            topic: of the partition.
            number: of the partition.
            patience: of the request; None if it names only one partition.
            during_deletion: whether it may go on while the topic is being deleted, as for followers
                and for transactions that end: the deletion waits for reassignments, which end when
                the new replicas have caught up, and for brokers that are away.

        Raises:
            NotLeaderForPartition: it exists and has no replica here.
            UnknownTopicOrPartition: it does not exist.
        """
        if topic in self.view.topics.deleting and not during_deletion:
            raise UnknownTopicOrPartition(f"topic {topic} is being deleted")
        found = self.replicas.get(topic, number)
        if found is not None:
            return found
        replicas = (self.view.assignment(topic) or {}).get(number)
        if replicas is None:
            raise UnknownTopicOrPartition(f"there is no partition {topic}-{number}")
        if self.broker_id in replicas:
            left_s = (patience or Patience()).left_s(self.runtime.clock_ms())
            found = self.replicas.wait_for((topic, number), left_s)
        if found is None:
            raise NotLeaderForPartition(f"{topic}-{number} has no replica at this broker")
        return found

    def leadership(
        self,
        topic: str,
        number: int,
        patience: Patience | None = None,
        *,
        epoch: int = NO_EPOCH,
        during_deletion: bool = False,
    ) -> Leadership:
        """Return the leadership of this broker for a partition; see `partition`.

        `epoch` is the client's idea of the current leader epoch; -1 for no check.

        Raises:
            ZkbrokerError: see `partition` and `Partition.leadership`.
        """
        return self.partition(topic, number, patience, during_deletion=during_deletion).leadership(
            epoch
        )

    def partition_count(self, topic: str, planned: int) -> int:
        """The number of partitions of an internal topic, or the planned number before creation."""
        assignment = self.view.assignment(topic)
        return len(assignment) if assignment else planned

    def would_create(self, topic: str) -> bool:
        """Whether asking for a topic creates it."""
        return self.config.auto_create_topics and self.view.assignment(topic) is None

    def led_here(self, topic: str, number: int) -> bool:
        """Whether this broker leads a partition, or the view says so."""
        partition = self.replicas.get(topic, number)
        if partition is not None and partition.leading is not None:
            return True
        return self.view.leader(topic, number)[0] == self.broker_id
