"""The fewest replica moves that balance brokers: a slow and plain minimum-cost flow.

From the source each partition gets its replicas, each broker takes one of a partition at most (for
nothing if it had one, for one move otherwise) and gives them to the sink: the lower share is paid
to be used, one more is allowed where the shares do not come out even.
"""

from collections.abc import Iterable, Mapping, Sequence

from zkbroker.types import PartitionKey

_PAID = -1000  # less than any moves can cost


def fewest_moves(current: Mapping[PartitionKey, Sequence[int]], brokers: Iterable[int]) -> int:
    """Return the number of moves, for brokers without racks."""
    brokers = list(brokers)
    total = sum(map(len, current.values()))
    share, rest = divmod(total, len(brokers))
    # Arcs in pairs, there and back: [from, to, room, cost].
    arcs: list[list] = []

    def arc(start: object, end: object, room: int, cost: int) -> None:
        arcs.extend([[start, end, room, cost], [end, start, 0, -cost]])

    for key, replicas in current.items():
        arc("source", key, len(replicas), 0)
        for broker in brokers:
            arc(key, broker, 1, int(broker not in replicas))
    for broker in brokers:
        arc(broker, "sink", share, _PAID)
        arc(broker, "sink", int(rest > 0), 0)
    cost = sum(_send_one(arcs) for _ in range(total))
    return cost - _PAID * share * len(brokers)


def _send_one(arcs: list[list]) -> int:
    """Send one replica along the cheapest way; return its cost."""
    costs: dict[object, int] = {"source": 0}
    came: dict[object, int] = {}
    changed = True
    while changed:
        changed = False
        for number, (start, end, room, cost) in enumerate(arcs):
            if room and start in costs and costs[start] + cost < costs.get(end, 10**9):
                costs[end] = costs[start] + cost
                came[end] = number
                changed = True
    node: object = "sink"
    while node != "source":
        number = came[node]
        arcs[number][2] -= 1
        arcs[number ^ 1][2] += 1
        node = arcs[number][0]
    return costs["sink"]
