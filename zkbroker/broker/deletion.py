"""The controller's part of deleting topics.

    asked for (/admin/delete_topics/t) --> every broker named in the assignment drops its logs and
    deregisters its partitions --> the controller removes the topic's nodes

Invariant: nodes are removed only when every broker of the assignment lives and none of the
partitions is registered: a broker that is away keeps its copy, and would serve it again under the
same name some day. Until it is back the deletion stays pending, as with genuine brokers.
"""

import logging
from collections.abc import Callable

from zkbroker.broker.duty import ControllerDuty
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import RegistryError
from zkbroker.registry import ZkSession, paths
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.partitions import partition_states
from zkbroker.registry.topics import Assignment, remove_topic
from zkbroker.registry.topics_watch import TopicsView

logger = logging.getLogger(__name__)

RETRY_S = 0.1
PENDING_RETRY_S = 1.0


class TopicDeletion(ControllerDuty):
    """Carries out deletions.

    Args:
        session: a started session.
        config: whether topics may be deleted.
        topics: returns the newest view of the topics.
    """

    def __init__(
        self, session: ZkSession, config: BrokerConfig, topics: Callable[[], TopicsView]
    ) -> None:
        super().__init__()
        self._session = session
        self._allowed = config.delete_topics
        self._topics = topics
        self._pending: set[str] = set()

    def work(self) -> float | None:
        """Look at every topic whose deletion was asked for."""
        view = self._topics()
        self._pending &= view.deleting
        if not view.deleting:
            return None
        for topic in sorted(view.deleting):
            try:
                self._delete(topic, view.assignments.get(topic, {}))
            except RegistryError as error:
                logger.warning("deletion will be tried again topic=%s error=%s", topic, error)
        return PENDING_RETRY_S if self._pending else RETRY_S

    def _delete(self, topic: str, assignment: Assignment) -> None:
        if not self._allowed:
            logger.warning("deletion refused topic=%s reason=delete.topic.enable=false", topic)
            self._session.delete(paths.delete_topic(topic), missing_ok=True)
            return
        brokers = {replicas[0] for replicas in assignment.values() if replicas}
        away = brokers - list_brokers(self._session).keys()
        if away:
            if topic not in self._pending:
                self._pending.add(topic)
                logger.warning("deletion waits topic=%s brokers_away=%s", topic, sorted(away))
            return
        self._pending.discard(topic)
        states = partition_states(self._session, [(topic, number) for number in assignment])
        # A state of a broker that is gone is a genuine one's, left persistent.
        if any(state.leader in brokers for state in states.values()):
            return
        remove_topic(self._session, topic)
