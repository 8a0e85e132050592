"""Balances brokers exactly, with the fewest replicas moved: for assignments without racks.

The replicas are a flow from partitions to brokers. A partition sends each of its replicas to a
different broker. A replica on a broker that had the partition before costs nothing, any other one
move; a broker above its upper share, or below its lower one, costs more than any number of moves. A
flow is cheapest exactly when no cycle of exchanges makes it cheaper (Klein 1967):

    broker --a partition that it holds and the next lacks--> broker ... --> back to the first
    broker --one replica more--> POOL --one replica less--> broker

Invariants:
- an exchange leaves every partition with as many replicas, on different brokers: a cycle passes
  each broker once, so it takes at most one replica from it and gives it at most one;
- every exchange along a cycle makes the whole cheaper, so the search ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from zkbroker.types import PartitionKey

_POOL = None
_Node = int | None  # a broker, or the pool
_Edge = tuple[int, PartitionKey | None]  # cost, and the partition that moves


def with_fewest_moves(
    current: Mapping[PartitionKey, Sequence[int]],
    target: Mapping[PartitionKey, Sequence[int]],
    brokers: Iterable[int],
) -> dict[PartitionKey, list[int]]:
    """Return the target, changed so that brokers are balanced and the fewest replicas move.

    Args:
        current: partition → its replicas now.
        target: partition → its replicas as planned so far, all of them on `brokers`. The closer it
            is to a solution, the less work there is.
        brokers: the brokers that may hold replicas.
    """
    exchanges = _Exchanges(current, target, brokers)
    while exchanges.improve():
        pass
    return exchanges.replicas


class _Exchanges:
    """A target, and the costs of passing replicas between brokers."""

    def __init__(
        self,
        current: Mapping[PartitionKey, Sequence[int]],
        target: Mapping[PartitionKey, Sequence[int]],
        brokers: Iterable[int],
    ) -> None:
        self.replicas = {key: list(replicas) for key, replicas in target.items()}
        self._current = current
        self._brokers = sorted(brokers)
        self._held: dict[int, dict[PartitionKey, None]] = {b: {} for b in self._brokers}
        # Partitions that a broker got in this plan: passing one on costs nothing.
        self._new: dict[int, dict[PartitionKey, None]] = {b: {} for b in self._brokers}
        # (from, to) → partitions of `from` that `to` had before the plan: they may go back.
        self._back: dict[tuple[int, int], dict[PartitionKey, None]] = defaultdict(dict)
        for key, replicas in self.replicas.items():
            for broker in replicas:
                self._held[broker][key] = None
            self._note(key)
        total = sum(map(len, self.replicas.values()))
        self._least, rest = divmod(total, max(1, len(self._brokers)))
        self._most = self._least + (rest > 0)
        # More than any cycle of moves can cost.
        self._uneven_cost = 2 * len(self._brokers) + 2

    def improve(self) -> bool:
        """Exchange along one cycle that makes the target cheaper; False when there is none."""
        cycle = self._cheaper_cycle()
        for giver, taker, key in cycle:
            if key is not None and giver is not None and taker is not None:
                self._pass_on(key, giver, taker)
        return bool(cycle)

    def _cheaper_cycle(self) -> list[tuple[_Node, _Node, PartitionKey | None]]:
        """Return the steps of a cycle with a negative cost, found by Bellman-Ford."""
        edges = self._edges()
        cost: dict[_Node, int] = dict.fromkeys([_POOL, *self._brokers], 0)
        came: dict[_Node, tuple[_Node, PartitionKey | None]] = {}
        changed = True
        while changed:
            changed = False
            for giver, of_giver in edges.items():
                for taker, (price, key) in of_giver.items():
                    if cost[giver] + price < cost[taker]:
                        cost[taker] = cost[giver] + price
                        came[taker] = (giver, key)
                        changed = True
            cycle = _cycle_in(came) if changed else []
            if cycle:
                return cycle
        return []

    def _edges(self) -> dict[_Node, dict[_Node, _Edge]]:
        edges: dict[_Node, dict[_Node, _Edge]] = {_POOL: {}}
        for giver in self._brokers:
            load = len(self._held[giver])
            edges[giver] = {_POOL: (self._load_cost(load + 1) - self._load_cost(load), None)}
            if load:
                price = self._load_cost(load - 1) - self._load_cost(load)
                edges[_POOL][giver] = (price, None)
            for taker in self._brokers:
                edge = self._edge(giver, taker) if taker != giver else None
                if edge is not None:
                    edges[giver][taker] = edge
        return edges

    def _edge(self, giver: int, taker: int) -> _Edge | None:
        """Return the cheapest replica to pass on; the loops are in order of cost."""
        lacking = self._held[taker]
        new = self._new[giver]
        free = None
        for key in self._back.get((giver, taker), ()):
            if key in new:
                return -1, key
            free = key
        if free is not None:
            return 0, free
        for key in new:
            if key not in lacking:
                return 0, key
        for key in self._held[giver]:
            if key not in lacking:
                return 1, key
        return None

    def _load_cost(self, load: int) -> int:
        return self._uneven_cost * max(0, load - self._most, self._least - load)

    def _pass_on(self, key: PartitionKey, giver: int, taker: int) -> None:
        self._forget(key)
        replicas = self.replicas[key]
        replicas[replicas.index(giver)] = taker
        del self._held[giver][key]
        self._held[taker][key] = None
        self._note(key)

    def _note(self, key: PartitionKey) -> None:
        for giver, taker in self._returns(key):
            self._back[giver, taker][key] = None
        for broker in self.replicas[key]:
            if broker not in self._current[key]:
                self._new[broker][key] = None

    def _forget(self, key: PartitionKey) -> None:
        for giver, taker in self._returns(key):
            del self._back[giver, taker][key]
        for broker in self.replicas[key]:
            self._new[broker].pop(key, None)

    def _returns(self, key: PartitionKey) -> list[tuple[int, int]]:
        replicas = self.replicas[key]
        missing = [b for b in self._current[key] if b in self._held and b not in replicas]
        return [(giver, taker) for taker in missing for giver in replicas]


def _cycle_in(
    came: Mapping[_Node, tuple[_Node, PartitionKey | None]],
) -> list[tuple[_Node, _Node, PartitionKey | None]]:
    """Return a cycle among the steps by which nodes were reached, if there is one."""
    seen: set[_Node] = set()
    for start in came:
        path: set[_Node] = set()
        node = start
        while node in came and node not in seen:
            seen.add(node)
            path.add(node)
            node = came[node][0]
        if node in path:
            steps: list[tuple[_Node, _Node, PartitionKey | None]] = []
            taker = node
            while not steps or taker != node:
                giver, key = came[taker]
                steps.append((giver, taker, key))
                taker = giver
            return steps
    return []
