"""What the handlers of a broker work with."""

from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.broker.clients import ClientVersions
from zkbroker.broker.hosting import Hosted, Hosting
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.topics import Topics
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ErrorCode, NotLeaderForPartition, ProtocolError, UnknownTopicOrPartition
from zkbroker.log import LogManager
from zkbroker.registry import ZkSession
from zkbroker.runtime import Runtime


@dataclass(slots=True, kw_only=True)
class BrokerServices:
    """The parts of a running broker.

    Args:
        now_ms: wall clock in milliseconds.
        controller_id: the broker that is controller now, None while there is none.
        stopping: whether the broker is shutting down, so that nothing should wait.
    """

    config: BrokerConfig
    broker_id: int
    runtime: Runtime
    session: ZkSession
    logs: LogManager
    view: ClusterView
    hosting: Hosting
    topics: Topics
    metrics: BrokerMetrics
    clients: ClientVersions
    now_ms: Callable[[], int]
    controller_id: Callable[[], int | None]
    stopping: Callable[[], bool]

    def hosted(self, topic: str, number: int, current_leader_epoch: int = -1) -> Hosted:
        """Return a partition that is served here; waits a moment for one that is about to be.

        Args:
            topic: its topic.
            number: its number.
            current_leader_epoch: what the client takes for the leader's epoch; -1 to skip.

        Raises:
            NotLeaderForPartition: it exists and is not served here.
            UnknownTopicOrPartition: it does not exist.
            ProtocolError: the client's epoch is older (74) or newer (75).
        """
        hosted = self.hosting.get_soon(topic, number)
        if hosted is None:
            assignment = self.view.assignment(topic)
            if assignment is not None and number in assignment:
                raise NotLeaderForPartition(f"{topic}-{number} is not hosted by this broker")
            raise UnknownTopicOrPartition(f"there is no partition {topic}-{number}")
        if current_leader_epoch >= 0 and current_leader_epoch != hosted.leader_epoch:
            older = current_leader_epoch < hosted.leader_epoch
            raise ProtocolError(
                f"leader epoch {current_leader_epoch} of {topic}-{number} is "
                f"{'over' if older else 'not known'}: it is {hosted.leader_epoch}",
                code=ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            )
        return hosted
