"""Plans which replicas to move when brokers come or go: a pure function of the assignment.

Invariants, of every plan:
- a partition keeps its number of replicas (or gets the requested number), on different, allowed
  brokers;
- a replica that may stay is moved only to balance the brokers; none is moved twice;
- the replicas of a partition are in as many racks as before, or in as many as are left;
- a plan names only partitions that change.

First, replicas on brokers that leave go to the brokers with most room. Then brokers above their
share give replicas to those below theirs. A broker's share is the mean, rounded up for the brokers
that already hold most, so that as many replicas as possible stay. Without racks, `fewest_moves`
then removes unnecessary moves: no balanced plan moves fewer replicas.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from zkbroker.admin.fewest_moves import with_fewest_moves
from zkbroker.errors import ConfigError
from zkbroker.types import PartitionKey

FEW = 5
"""Topics that an error names."""


def plan_reassignment(
    current: Mapping[PartitionKey, Sequence[int]],
    brokers: Mapping[int, str | None],
    *,
    replication_factor: int | None = None,
    balance: bool = True,
) -> dict[PartitionKey, tuple[int, ...]]:
    """Plan the replicas of partitions.

    Args:
        current: partition → its replicas, the preferred leader first.
        brokers: the brokers that may hold replicas: id → rack, None without one; racks count only
            when all brokers name one.
        replication_factor: replicas of each partition; unchanged by default.
        balance: balance the brokers; False moves only replicas that have to move.

    Returns:
        The partitions that change → their new replicas.

    Raises:
        ConfigError: there are fewer brokers than replicas.
    """
    _check_counts(current, brokers, replication_factor)
    plan = _Plan(current, brokers)
    plan.set_factor(replication_factor)
    plan.fill_gaps()
    if balance:
        plan.even_out()
    plan.spread_leaders()
    return plan.changes()


def moved_replicas(
    current: Mapping[PartitionKey, Sequence[int]],
    target: Mapping[PartitionKey, Sequence[int]],
) -> int:
    """Return how many replicas have to be copied."""
    return sum(len(set(replicas) - set(current[key])) for key, replicas in target.items())


def _check_counts(
    current: Mapping[PartitionKey, Sequence[int]],
    brokers: Mapping[int, str | None],
    replication_factor: int | None,
) -> None:
    counts: dict[str, int] = {}
    for (topic, _), replicas in current.items():
        counts[topic] = max(counts.get(topic, 0), replication_factor or len(replicas))
    too_many = sorted(topic for topic, count in counts.items() if count > len(brokers))
    if not too_many:
        return
    topic = too_many[0]
    others = f" ({', '.join(too_many[1:FEW])} too)" if len(too_many) > 1 else ""
    verb = "is to have" if replication_factor else "has"
    raise ConfigError(
        f"topic {topic}{others} {verb} {counts[topic]} replicas of each partition, which need as "
        f"many brokers; there are {len(brokers)} to use: "
        f"{', '.join(map(str, sorted(brokers))) or 'none'}"
    )


class _Plan:
    """The planned replicas so far. None marks a replica without a broker."""

    def __init__(
        self, current: Mapping[PartitionKey, Sequence[int]], brokers: Mapping[int, str | None]
    ) -> None:
        self._current = {key: tuple(replicas) for key, replicas in sorted(current.items())}
        self._brokers = sorted(brokers)
        self._racks = (
            {} if None in brokers.values() else {b: str(rack) for b, rack in brokers.items()}
        )
        self._replicas: dict[PartitionKey, list[int | None]] = {
            key: [broker if broker in brokers else None for broker in replicas]
            for key, replicas in self._current.items()
        }
        self._held: dict[int, set[PartitionKey]] = {broker: set() for broker in self._brokers}
        self._of_topic: Counter[tuple[int, str]] = Counter()
        for key, replicas in self._replicas.items():
            for broker in replicas:
                if broker is not None:
                    self._hold(broker, key)
        self._moved: set[tuple[PartitionKey, int]] = set()
        self._share: dict[int, int] = {}
        self._least_racks: dict[PartitionKey, int] = {}

    def set_factor(self, factor: int | None) -> None:
        """Drop or add replicas until each partition has the requested number."""
        for key, replicas in self._replicas.items():
            while factor is not None and len(replicas) > factor:
                self._drop_one(key, replicas)
            if factor is not None:
                replicas += [None] * (factor - len(replicas))
        total = sum(map(len, self._replicas.values()))
        mean, rest = divmod(total, max(1, len(self._brokers)))
        fullest = sorted(self._brokers, key=lambda broker: (-len(self._held[broker]), broker))
        self._share = {b: mean + (place < rest) for place, b in enumerate(fullest)}
        racks = len(set(self._racks.values()))
        for key, replicas in self._replicas.items():
            # Brokers that left have no rack; replicas on other brokers must cover their racks.
            stay = self._rack_count(broker for broker in replicas if broker is not None)
            gaps = sum(broker is None for broker in replicas)
            self._least_racks[key] = min(stay + gaps, racks)

    def fill_gaps(self) -> None:
        """Give every replica without a broker one."""
        gaps = [
            (key, index)
            for key, replicas in self._replicas.items()
            for index, broker in enumerate(replicas)
            if broker is None
        ]
        for key, index in gaps:
            fitting = self._fitting(key, index) or self._next_best(key, index)
            with_places = [broker for broker in fitting if self._places(broker) > 0]
            if with_places:
                chosen = self._best(with_places, key)
            else:
                chosen = next(
                    (broker for broker in fitting if self._free_a_place(broker)),
                    self._best(fitting, key),
                )
            self._put(key, index, chosen)

    def even_out(self) -> None:
        """Move replicas from brokers above their share to brokers below theirs."""
        for giver in self._brokers:
            self._give(giver)
            while self._racks and self._places(giver) < 0 and self._give_roundabout(giver):
                pass
        if not self._racks:
            self._replicas.update(
                {
                    key: self._in_old_order(key, replicas)
                    for key, replicas in with_fewest_moves(
                        self._current, self._assigned(), self._brokers
                    ).items()
                }
            )

    def spread_leaders(self) -> None:
        """Reorder replicas of partitions that change, where that balances preferred leaders."""
        changed = [key for key in self._replicas if self._changed(key)]
        leads = Counter(replicas[0] for replicas in self._replicas.values() if replicas)
        swapped = True
        while swapped:
            swapped = False
            for key in changed:
                replicas = self._replicas[key]
                least = min(range(len(replicas)), key=lambda at: leads[replicas[at]])
                if leads[replicas[0]] - leads[replicas[least]] >= 2:
                    leads[replicas[0]] -= 1
                    leads[replicas[least]] += 1
                    replicas[0], replicas[least] = replicas[least], replicas[0]
                    swapped = True

    def changes(self) -> dict[PartitionKey, tuple[int, ...]]:
        assigned = self._assigned()
        return {key: tuple(assigned[key]) for key in assigned if self._changed(key)}

    def _assigned(self) -> dict[PartitionKey, list[int]]:
        return {
            key: [broker for broker in replicas if broker is not None]
            for key, replicas in self._replicas.items()
        }

    def _in_old_order(self, key: PartitionKey, replicas: Sequence[int]) -> list[int | None]:
        """Return the replicas, those that stay in their old order."""
        staying = iter([broker for broker in self._current[key] if broker in replicas])
        return [next(staying) if broker in self._current[key] else broker for broker in replicas]

    def _changed(self, key: PartitionKey) -> bool:
        return self._current[key] != tuple(self._replicas[key])

    def _drop_one(self, key: PartitionKey, replicas: list[int | None]) -> None:
        def worth(index: int) -> tuple[bool, int, bool, int]:
            broker = replicas[index]
            others = [each for each in replicas if each is not None and each != broker]
            return (
                broker is not None,
                -self._rack_count(others),
                index == 0,
                0 if broker is None else -len(self._held[broker]),
            )

        dropped = replicas.pop(min(range(len(replicas)), key=worth))
        if dropped is not None:
            self._release(dropped, key)

    def _give(self, giver: int) -> None:
        """Move replicas away, each to the broker with most room that may have one."""
        candidates: dict[int, list[tuple[bool, int, PartitionKey]]] = {}
        while self._places(giver) < 0:
            takers = [broker for broker in self._brokers if self._places(broker) > 0]
            for taker in sorted(takers, key=lambda broker: (-self._places(broker), broker)):
                if taker not in candidates:
                    candidates[taker] = [self._preference(giver, key) for key in self._held[giver]]
                    heapify(candidates[taker])
                key = self._next_to_give(giver, taker, candidates[taker])
                if key is not None:
                    self._put(key, self._replicas[key].index(giver), taker)
                    break
            else:
                return

    def _preference(self, giver: int, key: PartitionKey) -> tuple[bool, int, PartitionKey]:
        """Sort key for giving away: changing partitions first, then the giver's largest topics."""
        return not self._changed(key), -self._of_topic[giver, key[0]], key

    def _next_to_give(
        self, giver: int, taker: int, candidates: list[tuple[bool, int, PartitionKey]]
    ) -> PartitionKey | None:
        while candidates:
            key = candidates[0][2]
            if key in self._held[giver]:
                now = self._preference(giver, key)
                if now != candidates[0]:
                    heapreplace(candidates, now)
                    continue
                index = self._replicas[key].index(giver)
                free = key not in self._held[taker] and (key, index) not in self._moved
                if free and self._fits(key, index, taker):
                    return key
            heappop(candidates)
        return None

    def _give_roundabout(self, giver: int) -> bool:
        """Move one replica to a broker that passes on another one; False if none can."""
        full: set[int] = set()
        for key in sorted(self._held[giver]):
            index = self._replicas[key].index(giver)
            if (key, index) in self._moved:
                continue
            for broker in self._fitting(key, index):
                if self._places(broker) == 0 and broker not in full:
                    if self._free_a_place(broker):
                        self._put(key, index, broker)
                        return True
                    full.add(broker)
        return False

    def _free_a_place(self, broker: int) -> bool:
        """Redirect a replica that is planned to move to this broker to another broker with room."""
        for key in sorted(self._held[broker]):
            index = self._replicas[key].index(broker)
            if (key, index) in self._moved:
                for other in self._fitting(key, index):
                    if self._places(other) > 0:
                        self._put(key, index, other)
                        return True
        return False

    def _best(self, brokers: Sequence[int], key: PartitionKey) -> int:
        return min(brokers, key=lambda b: (-self._places(b), self._of_topic[b, key[0]], b))

    def _places(self, broker: int) -> int:
        return self._share[broker] - len(self._held[broker])

    def _fitting(self, key: PartitionKey, index: int) -> list[int]:
        """Return the brokers that may take a replica and keep its partition's racks."""
        return [
            broker
            for broker in self._brokers
            if key not in self._held[broker] and self._fits(key, index, broker)
        ]

    def _next_best(self, key: PartitionKey, index: int) -> list[int]:
        """Return the brokers with which a partition has as many racks as it can have."""
        free = [broker for broker in self._brokers if key not in self._held[broker]]
        most = max((self._racks_with(key, index, broker) for broker in free), default=0)
        return [broker for broker in free if self._racks_with(key, index, broker) == most]

    def _fits(self, key: PartitionKey, index: int, broker: int) -> bool:
        missing = sum(each is None for each in self._replicas[key])
        if self._replicas[key][index] is None:
            missing -= 1
        return self._racks_with(key, index, broker) + missing >= self._least_racks[key]

    def _racks_with(self, key: PartitionKey, index: int, broker: int) -> int:
        others = [
            each for at, each in enumerate(self._replicas[key]) if at != index and each is not None
        ]
        return self._rack_count([*others, broker])

    def _rack_count(self, brokers: Iterable[int]) -> int:
        return len({self._racks[broker] for broker in brokers}) if self._racks else 0

    def _put(self, key: PartitionKey, index: int, broker: int) -> None:
        before = self._replicas[key][index]
        if before is not None:
            self._release(before, key)
        self._replicas[key][index] = broker
        self._hold(broker, key)
        self._moved.add((key, index))

    def _hold(self, broker: int, key: PartitionKey) -> None:
        self._held[broker].add(key)
        self._of_topic[broker, key[0]] += 1

    def _release(self, broker: int, key: PartitionKey) -> None:
        self._held[broker].discard(key)
        self._of_topic[broker, key[0]] -= 1
