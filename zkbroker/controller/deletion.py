"""Deletes topics.

    requested --> every broker of the assignment lives --> all get: no leader, stop, delete
       ^                                                          |
       +-- a broker is gone, or answered with an error -----------+--> all deleted --> nodes removed

Invariant: the nodes of a topic are removed only after every replica was deleted: a broker that is
away keeps its copy, and could later serve it as a new topic of the same name. A deletion that
starts again waits for the answers to its present requests: the answer to an earlier request may
concern an earlier topic of the same name.
"""

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from zkbroker.controller.answers import BrokerAnswers
from zkbroker.controller.context import ControllerContext
from zkbroker.controller.requests import RequestBatch
from zkbroker.errors import ErrorCode
from zkbroker.registry import paths
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.partition_states import Key
from zkbroker.registry.topics import remove_topic
from zkbroker.zookeeper.nodes import Delete
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Begun:
    """A deletion under way; `number` tells it from earlier ones of the same topic."""

    number: int
    awaited: set[tuple[Key, int]]
    """The replicas whose deletion no broker has answered yet."""
    failed: bool = False
    """Whether a broker answered with an error."""

    def awaits(self, broker: int) -> bool:
        return any(each == broker for _, each in self.awaited)


@dataclass(slots=True)
class TopicDeletion:
    """Carries deletions out, as far as possible; call `advance` after every change.

    Args:
        answers: records a broker that refused; `broker_joined` follows.
        epoch_version: version of `/controller_epoch` since the controller's election.
        allowed: `delete.topic.enable`.
    """

    session: ZkSession
    context: ControllerContext
    batch: RequestBatch
    answers: BrokerAnswers
    epoch_version: int
    allowed: bool = field(kw_only=True)
    _begun: dict[str, _Begun] = field(init=False, default_factory=dict)
    _beginnings: int = field(init=False, default=0)
    _waiting: set[str] = field(init=False, default_factory=set)

    def advance(self) -> None:
        """Begin and finish every deletion that can."""
        for topic in self._begun.keys() - self.context.deleting:
            # An operator removed the request, or the topic. A later one must begin anew.
            del self._begun[topic]
        for topic in sorted(self.context.deleting):
            begun = self._begun.get(topic)
            if begun is not None:
                if not begun.awaited:
                    self._remove(topic)
            elif not self.context.assignments.get(topic):
                self._remove(topic)  # the topic is unknown, or only its marker exists
            elif self._ready(topic):
                self._begin(topic)

    def refuse(self, topics: set[str]) -> None:
        """Remove the markers of deletions while deletion is disabled."""
        for topic in sorted(topics):
            logger.warning("deletion refused topic=%s reason=delete.topic.enable=false", topic)
        controller_transactions(
            self.session,
            [Delete(paths.delete_topic(topic)) for topic in sorted(topics)],
            self.epoch_version,
        )

    def broker_gone(self, broker: int) -> None:
        """Reset the deletions that wait for a broker; they begin again once it is back."""
        for topic, begun in list(self._begun.items()):
            if begun.awaits(broker):
                del self._begun[topic]

    def broker_joined(self, broker: int) -> None:
        """Begin again the deletions that failed at a broker."""
        for topic, begun in list(self._begun.items()):
            if begun.failed and begun.awaits(broker):
                del self._begun[topic]

    def _ready(self, topic: str) -> bool:
        keys = self.context.partitions(topic)
        moving = [key for key in keys if key in self.context.reassigning]
        away = sorted(
            {
                broker
                for key in keys
                for broker in self.context.replicas(key)
                if not self.context.online(key, broker)
            }
        )
        if not moving and not away:
            self._waiting.discard(topic)
            return True
        if topic not in self._waiting:
            self._waiting.add(topic)
            logger.warning(
                "deletion waits topic=%s brokers_away=%s reassigning=%d", topic, away, len(moving)
            )
        return False

    def _begin(self, topic: str) -> None:
        keys = self.context.partitions(topic)
        awaited = {(key, b) for key in keys for b in self.context.replicas(key)}
        logger.info("deletion begun topic=%s replicas=%d", topic, len(awaited))
        self.batch.metadata(keys)
        self._beginnings += 1
        self._begun[topic] = _Begun(self._beginnings, awaited)
        # A broker gets one request for several topics; its answer counts for every deletion that
        # had begun when it was sent.
        answered = partial(self._answered, self._beginnings)
        for key in keys:
            replicas = self.context.replicas(key)
            self.batch.stop(key, replicas, delete=False)
            self.batch.stop(key, replicas, delete=True, answered=answered)

    def _answered(self, beginnings: int, broker: int, response: Any) -> None:
        """Process a broker's answer to a StopReplica(delete) sent after that many beginnings."""
        if response.error_code != ErrorCode.NONE:
            logger.warning("deletion refused broker=%d error=%d", broker, response.error_code)
            for begun in self._begun.values():
                if begun.number <= beginnings and begun.awaits(broker):
                    begun.failed = True
            self.answers.note_refused(broker)
            return
        for item in response.partitions:
            asked = self._begun.get(item.topic)
            if asked is None or asked.number > beginnings:
                continue
            if item.error_code == ErrorCode.NONE:
                asked.awaited.discard(((item.topic, item.partition), broker))
            elif not asked.failed:
                asked.failed = True
                logger.warning(
                    "deletion waits topic=%s broker=%d error=%d: repeated when the broker restarts",
                    item.topic,
                    broker,
                    item.error_code,
                )
        self.advance()

    def _remove(self, topic: str) -> None:
        remove_topic(self.session, topic, self.epoch_version)
        self._begun.pop(topic, None)
        self._waiting.discard(topic)
        self.context.forget_topic(topic)
