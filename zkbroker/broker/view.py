"""What this broker knows of the cluster: live brokers, topics, and who leads which partition.

Invariant: the view is replaced by the registry's watches and read by handlers without waiting; it
may be some milliseconds old, as every broker's is. Who needs a change to have arrived waits for it
with `wait_for`.
"""

import time
from collections.abc import Callable, Mapping

import gevent.event

from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.states_watch import States
from zkbroker.registry.topics import Assignment
from zkbroker.registry.topics_watch import TopicsView

NO_LEADER = -1
NO_EPOCH = -1


class ClusterView:
    """The cluster as last seen.

    Args:
        own: this broker's registration; it counts as live even while ZooKeeper is away.
    """

    def __init__(self, own: BrokerInfo) -> None:
        self.own = own
        self.brokers: Mapping[int, BrokerInfo] = {own.id: own}
        self.topics = TopicsView({}, {}, frozenset())
        self.states: States = {}
        self.cluster_id: str | None = None
        self._leads_own: Callable[[str, int], int | None] = lambda topic, number: None
        self._changed = gevent.event.Event()

    def set_own_leadership(self, leads: Callable[[str, int], int | None]) -> None:
        """Set how to find out the leader epoch of a partition hosted here; None if it is not."""
        self._leads_own = leads

    def set_brokers(self, brokers: Mapping[int, BrokerInfo]) -> None:
        self.brokers = {**brokers, self.own.id: self.own}
        self.notify()

    def set_topics(self, topics: TopicsView) -> None:
        self.topics = topics
        self.notify()

    def set_states(self, states: States) -> None:
        self.states = states
        self.notify()

    def elsewhere(self) -> set[tuple[str, int]]:
        """Return the partitions that other brokers host, whose states tell who leads them."""
        return {
            (topic, number)
            for topic, assignment in self.topics.assignments.items()
            for number, replicas in assignment.items()
            if replicas and replicas[0] != self.own.id
        }

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        self._changed.set()
        self._changed.clear()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the view holds; False when `timeout_s` passed first."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            # Not every condition is announced: look again before long.
            self._changed.wait(min(left_s, 0.5))
        return True

    def exists(self, topic: str) -> bool:
        """Whether a topic exists and is not being deleted."""
        return topic in self.topics.assignments and topic not in self.topics.deleting

    def assignment(self, topic: str) -> Assignment | None:
        """Return partition → broker ids; None for a topic that does not exist."""
        return self.topics.assignments.get(topic) if self.exists(topic) else None

    def leader(self, topic: str, number: int, replicas: tuple[int, ...]) -> tuple[int, int]:
        """Return the leader of a partition and its epoch, each -1 where not known."""
        first = replicas[0] if replicas else NO_LEADER
        if first == self.own.id:
            epoch = self._leads_own(topic, number)
            return (NO_LEADER, NO_EPOCH) if epoch is None else (first, epoch)
        state = self.states.get((topic, number))
        if state is None or state.leader not in self.brokers or state.leader == self.own.id:
            return NO_LEADER, NO_EPOCH
        return state.leader, state.leader_epoch

    def led(self, topic: str) -> bool:
        """Whether a topic exists and every partition of it has a leader."""
        assignment = self.assignment(topic)
        return assignment is not None and all(
            self.leader(topic, number, replicas)[0] != NO_LEADER
            for number, replicas in assignment.items()
        )
