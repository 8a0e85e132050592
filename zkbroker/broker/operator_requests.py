"""The controller's answer to reassignments and preferred-replica elections.

Invariant: with one replica a partition its leader is the preferred one, and a partition cannot
move, since nobody copies its log. So an election is over as soon as it is asked for; a reassignment
is over where it asks for what is there, and refused elsewhere: the assignment stays as it was, and
the tool's `--verify` says that it failed.
"""

import logging
from collections.abc import Callable

from zkbroker.broker.duty import ControllerDuty
from zkbroker.registry import ZkSession
from zkbroker.registry.operator_requests import (
    OperatorRequestsWatch,
    TopicPartition,
    finish_election,
    finish_reassignment,
    read_requests,
)
from zkbroker.registry.topics_watch import TopicsView

logger = logging.getLogger(__name__)


class OperatorRequestsAnswer(ControllerDuty):
    """Answers what operators ask for.

    Args:
        session: a started session.
        topics: returns the newest view of the topics.
    """

    def __init__(self, session: ZkSession, topics: Callable[[], TopicsView]) -> None:
        super().__init__()
        self._session = session
        self._topics = topics
        self._watch = OperatorRequestsWatch(session, lambda requests: self.poke())

    def start(self) -> None:
        """Begin to look.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._watch.start()
        self.begin()

    def close(self, timeout_s: float) -> None:
        self._watch.close(timeout_s)
        self.end()

    def work(self) -> float | None:
        """Answer what is asked for now."""
        requests = read_requests(self._session)
        if requests.election is not None:
            logger.info("preferred replicas lead already partitions=%d", len(requests.election))
            finish_election(self._session)
        if requests.reassignment is not None:
            for partition, replicas in sorted(requests.reassignment.items()):
                self._judge(partition, replicas)
            finish_reassignment(self._session)
        return None

    def _judge(self, partition: TopicPartition, replicas: tuple[int, ...]) -> None:
        topic, number = partition
        present = self._topics().assignments.get(topic, {}).get(number)
        if present is not None and tuple(present) == replicas:
            logger.info("reassignment done partition=%s-%d", topic, number)
            return
        logger.warning(
            "reassignment refused partition=%s-%d replicas=%s asked=%s: a partition has one replica"
            " and nobody copies it; publish its messages to a topic created with the assignment "
            "that you want (zkbroker replay)",
            topic,
            number,
            None if present is None else list(present),
            list(replicas),
        )
