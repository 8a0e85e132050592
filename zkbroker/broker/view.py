"""This broker's view of the cluster: live brokers, topics, and leaders of partitions.

    brokers, topics and their settings <-- ZooKeeper, by the registry's watches
    leaders, ISRs, offline replicas    <-- the controller, by UpdateMetadata; later epochs also
                                           from other brokers, while ZooKeeper is out of reach

Invariant: handlers read the view without waiting; it may be a few milliseconds old, like every
broker's. Code that needs a change waits for it with `wait_for`. The view does not make this broker
a leader: the replica manager knows what it leads.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import gevent.event

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol.messages import UpdateMetadataRequest
from zkbroker.protocol.messages.leader_and_isr import LEADER_DURING_DELETE
from zkbroker.protocol.messages.metadata import MetadataPartition
from zkbroker.protocol.messages.update_metadata import UpdateMetadataPartition
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics import Assignment
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.replica.fencing import (
    ONLY_CONNECTION,
    ControllerFence,
    check_decision,
    states_in,
)
from zkbroker.replica.role import NO_EPOCH

logger = logging.getLogger(__name__)

NO_LEADER = -1
DECIDED_WITHIN_S = 1.0
"""How long after a partition was first seen a request may wait for its leader."""


class ClusterView:
    """The cluster as last seen.

    Args:
        own: this broker's registration; this broker counts as live even while ZooKeeper is away.
    """

    def __init__(self, own: BrokerInfo) -> None:
        self.own = own
        self.brokers: Mapping[int, BrokerInfo] = {own.id: own}
        self.topics = TopicsView({}, {}, frozenset())
        self.cluster_id: str | None = None
        self._decided: dict[tuple[str, int], UpdateMetadataPartition] = {}
        self._grown: dict[str, float] = {}
        self._changed = gevent.event.Event()
        self._broker_listeners: list[Callable[[Mapping[int, BrokerInfo]], object]] = []
        self._topic_listeners: list[Callable[[TopicsView], object]] = []
        self._warned = False

    def on_topics(self, listener: Callable[[TopicsView], object]) -> None:
        """Call back after each change of topics, after earlier listeners."""
        self._topic_listeners.append(listener)

    def on_brokers(self, listener: Callable[[Mapping[int, BrokerInfo]], object]) -> None:
        """Call back with the registered brokers after each change."""
        self._broker_listeners.append(listener)

    def set_brokers(self, brokers: Mapping[int, BrokerInfo]) -> None:
        self.brokers = {**brokers, self.own.id: self.own}
        self.notify()
        for listener in self._broker_listeners:
            listener(brokers)

    def set_topics(self, topics: TopicsView) -> None:
        before, now_s = self.topics.assignments, time.monotonic()
        gone = before.keys() - topics.assignments.keys()
        self.topics = topics
        self._grown = {
            topic: seen_s
            for topic, seen_s in self._grown.items()
            if topic not in gone and now_s - seen_s < DECIDED_WITHIN_S
        }
        for topic, assignment in topics.assignments.items():
            known = before.get(topic)
            if known is not assignment and assignment.keys() - (known or {}).keys():
                self._grown[topic] = now_s
        if gone:
            for key in [key for key in self._decided if key[0] in gone]:
                del self._decided[key]
        self.notify()
        for listener in self._topic_listeners:
            listener(topics)

    def update(
        self,
        request: UpdateMetadataRequest,
        fence: ControllerFence,
        connection: int = ONLY_CONNECTION,
    ) -> ErrorCode:
        """Apply the controller's state; partitions that it does not name stay unchanged.

        The fence is shared with its other requests; `connection` as in `ControllerFence.check`.
        """
        try:
            fence.check(
                request.controller_id, request.controller_epoch, request.broker_epoch, connection
            )
        except ProtocolError as error:
            return error.code
        code = ErrorCode.NONE
        for topic, state in states_in(request):
            key = (topic, state.partition)
            try:
                check_decision(topic, state, known=key in self._decided)
            except ZkbrokerError as error:
                # The valid parts of the request still count.
                code = ErrorCode.INVALID_REQUEST
                level = logging.DEBUG if self._warned else logging.WARNING
                self._warned = True
                logger.log(
                    level, "UpdateMetadata refused controller=%d %s", request.controller_id, error
                )
                continue
            if state.leader == LEADER_DURING_DELETE:
                self._decided.pop(key, None)
            else:
                self._decided[key] = state
        self.notify()
        return code

    def learn(self, topic: str, state: MetadataPartition) -> bool:
        """Apply another broker's state of a partition, if its leader epoch is later."""
        key = (topic, state.partition)
        known = self._decided.get(key)
        if known is None or state.leader_epoch <= known.leader_epoch:
            return False
        self._decided[key] = replace(
            known,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=state.replicas,
            offline_replicas=state.offline_replicas,
        )
        return True

    def notify(self) -> None:
        """Wake everything that waits for a change."""
        self._changed.set()
        self._changed.clear()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the view holds; False when `timeout_s` passed first."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            # Not every change is announced: check again soon.
            self._changed.wait(min(left_s, 0.5))
        return True

    def exists(self, topic: str) -> bool:
        """Whether a topic exists and is not being deleted."""
        return topic in self.topics.assignments and topic not in self.topics.deleting

    def assignment(self, topic: str) -> Assignment | None:
        """Return partition → broker ids; None for a topic that does not exist."""
        return self.topics.assignments.get(topic) if self.exists(topic) else None

    def partitions(self) -> list[tuple[str, int]]:
        """Return every partition."""
        return [
            (topic, number)
            for topic, assignment in self.topics.assignments.items()
            for number in assignment
        ]

    def decided(self, topic: str, number: int) -> UpdateMetadataPartition | None:
        """Return the controller's state of a partition, None before it was sent."""
        return self._decided.get((topic, number))

    def awaits_decision(self, topic: str) -> bool:
        """Whether the controller may be about to elect leaders for new partitions of a topic.

        A client that sees a new topic also expects its leader; the controller informs every broker,
        but not all at the same moment.
        """
        seen_s = self._grown.get(topic)
        if seen_s is None or time.monotonic() - seen_s >= DECIDED_WITHIN_S:
            return False
        assignment = self.assignment(topic) or {}
        return any((topic, number) not in self._decided for number in assignment)

    def leader(self, topic: str, number: int) -> tuple[int, int]:
        """Return the live leader of a partition and its epoch, each -1 if there is none."""
        state = self._decided.get((topic, number))
        if state is None or state.leader not in self.brokers:
            return NO_LEADER, NO_EPOCH
        return state.leader, state.leader_epoch

    def last_led_by_others(self, brokers: Collection[int]) -> list[tuple[str, int]]:
        """Return the partitions whose last known leader is not one of these brokers."""
        return [key for key, state in self._decided.items() if state.leader not in brokers]

    def reachable(self, broker_id: int, listener: str) -> bool:
        """Whether a live broker has a listener of that name."""
        broker = self.brokers.get(broker_id)
        return broker is not None and listener in broker.listeners

    def led(self, topic: str) -> bool:
        """Whether a topic exists and every partition of it has a leader."""
        assignment = self.assignment(topic)
        return assignment is not None and all(
            self.leader(topic, number)[0] != NO_LEADER for number in assignment
        )
