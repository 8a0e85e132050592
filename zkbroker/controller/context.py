"""The controller's state: brokers, topics, decisions, deletions and reassignments.

Invariant: one task owns it. `states` holds only decisions that are stored in ZooKeeper.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import Key, LeaderAndIsr
from zkbroker.registry.topics import Assignment

UNCLEAN = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class TermSettings:
    """The settings of a controller.

    Args:
        controller_id: the broker that is the controller.
        level: `inter.broker.protocol.version`.
        listener: name of the listener that brokers use among themselves.
        unclean_default: `unclean.leader.election.enable` of topics without the setting.
        delete_topics: `delete.topic.enable`.
    """

    controller_id: int
    level: str = "2.3"
    listener: str = "PLAINTEXT"
    unclean_default: bool = False
    delete_topics: bool = True


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker. Args: epoch is the transaction in which it registered."""

    info: BrokerInfo
    epoch: int


@dataclass(slots=True)
class ControllerContext:
    """Args: unclean_default applies to topics without `unclean.leader.election.enable`."""

    unclean_default: bool = False
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    shutting_down: set[int] = field(default_factory=set)
    """Brokers that are about to stop, until they are gone or have registered again."""
    offline_replicas: set[tuple[Key, int]] = field(default_factory=set)
    """Replicas of live brokers in a failed log directory."""
    assignments: dict[str, Assignment] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    states: dict[Key, LeaderAndIsr] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    reassigning: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    """Partition -> its new replicas."""

    def keys(self) -> Iterator[Key]:
        """Every partition, those being deleted included."""
        for topic, assignment in self.assignments.items():
            for number in assignment:
                yield topic, number

    def served(self) -> Iterator[Key]:
        """Every partition that is not about to be deleted."""
        return (key for key in self.keys() if not self.ending(key))

    def ending(self, key: Key) -> bool:
        """Whether a partition is about to be deleted.

        A partition under reassignment needs its leader until that is over; its deletion waits.
        """
        return key[0] in self.deleting and key not in self.reassigning

    def partitions(self, topic: str) -> list[Key]:
        return [(topic, number) for number in self.assignments.get(topic, ())]

    def replicas(self, key: Key) -> tuple[int, ...]:
        """The brokers a partition is assigned to; none if there is no such partition."""
        return self.assignments.get(key[0], {}).get(key[1], ())

    def hosted_by(self, broker: int) -> list[Key]:
        """The partitions that have a replica on a broker."""
        return [
            (topic, number)
            for topic, assignment in self.assignments.items()
            for number, replicas in assignment.items()
            if broker in replicas
        ]

    def known(self, key: Key) -> bool:
        return key[1] in self.assignments.get(key[0], ())

    def online(self, key: Key, broker: int) -> bool:
        """Whether a replica's broker lives and has its log."""
        return broker in self.brokers and (key, broker) not in self.offline_replicas

    def online_replicas(self, key: Key, replicas: Iterable[int] | None = None) -> tuple[int, ...]:
        """The online replicas in the assignment's order, including those on stopping brokers."""
        wanted = self.replicas(key) if replicas is None else replicas
        return tuple(broker for broker in wanted if self.online(key, broker))

    def electable(self, key: Key, replicas: Iterable[int] | None = None) -> tuple[int, ...]:
        """The online replicas that may become leader: those of brokers that stay."""
        return tuple(
            broker
            for broker in self.online_replicas(key, replicas)
            if broker not in self.shutting_down
        )

    def has_leader(self, key: Key) -> bool:
        state = self.states.get(key)
        return state is not None and self.online(key, state.leader)

    def leads(self, broker: int, key: Key) -> bool:
        state = self.states.get(key)
        return state is not None and state.leader == broker

    def in_isr(self, key: Key, brokers: set[int]) -> bool:
        """Whether a partition has its leader or a replica in sync on one of the brokers."""
        state = self.states.get(key)
        return state is not None and (state.leader in brokers or not brokers.isdisjoint(state.isr))

    def led_by_first(self, key: Key) -> bool:
        """Whether the preferred replica leads."""
        state = self.states.get(key)
        return state is not None and self.replicas(key)[:1] == (state.leader,)

    def undecided(self, key: Key) -> bool:
        """Whether a partition is new: no decision is stored, or only an epoch."""
        state = self.states.get(key)
        return state is None or not state.isr

    def unclean(self, topic: str) -> bool:
        """Whether a replica that is not in sync may lead."""
        text = self.configs.get(topic, {}).get(UNCLEAN)
        return self.unclean_default if text is None else text.strip().lower() == "true"

    def forget_topic(self, topic: str) -> None:
        for key in self.partitions(topic):
            self.states.pop(key, None)
            self.reassigning.pop(key, None)
        self.offline_replicas = {each for each in self.offline_replicas if each[0][0] != topic}
        self.assignments.pop(topic, None)
        self.deleting.discard(topic)

    def imbalanced(self, above_percent: float) -> list[Key]:
        """The partitions to return to preferred leaders that lead too few of them.

        Args:
            above_percent: the share of a broker's preferred partitions that others may lead.
        """
        owed: dict[int, list[Key]] = {}
        total: dict[int, int] = {}
        for key in self.served():
            replicas = self.replicas(key)
            if not replicas:
                continue
            first = replicas[0]
            total[first] = total.get(first, 0) + 1
            state = self.states.get(key)
            if state is not None and state.leader != first:
                owed.setdefault(first, []).append(key)
        return [
            key
            for broker, keys in owed.items()
            if self.may_lead(broker) and len(keys) * 100 > above_percent * total[broker]
            for key in keys
        ]

    def may_lead(self, broker: int) -> bool:
        return broker in self.brokers and broker not in self.shutting_down

    def count(self, test: Callable[[Key], bool]) -> int:
        return sum(map(test, self.served()))
