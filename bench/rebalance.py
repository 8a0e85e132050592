"""How long a ZooKeeper group takes to settle after a member joined or left.

    python -m bench.growth --only members

Members are in one process and consume nothing, so only the protocol is measured: reading the group,
releasing and claiming. Since machines differ, each time is also given in round trips, in units of
one small read of the same ZooKeeper, measured between the rounds.
"""

import statistics
import threading
import time
from collections.abc import Callable

from zkbroker.rebalance import Owned, Rebalancer, ZkGroupStore, range_assign, thread_ids
from zkbroker.registry import groups, topics
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import ZkSession


class Member:
    """Takes part and consumes nothing."""

    moved = threading.Event()

    def __init__(self, connect: str, number: int) -> None:
        self.id = f"g_{number:06d}"
        self.owned: Owned = {}
        self.session = ZkSession(connect).start()
        self.rebalancer = Rebalancer(
            ZkGroupStore(self.session, "g", self.id),
            self,
            subscription=StreamSubscription({"t": 1}),
        )
        self.rebalancer.start()

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def drop(self) -> None:
        self.owned = {}

    def stop(self) -> None:
        self.owned = {}

    def commit(self) -> None: ...

    def load(self, owned: Owned) -> None: ...

    def start(self, owned: Owned) -> None:
        self.owned = dict(owned)
        self.moved.set()

    def leave(self) -> None:
        self.rebalancer.close()
        self.session.close()


def settle_s(members: list[Member], partitions: int, change: Callable[[], object]) -> float:
    started = time.perf_counter()
    change()
    wanted = range_assign(
        {"t": range(partitions)}, {"t": [t for m in members for t in thread_ids(m.id, 1)]}
    )
    while True:
        Member.moved.clear()
        if {key: f"{m.id}-0" for m in members for key in m.owned} == wanted:
            return time.perf_counter() - started
        Member.moved.wait(1)


def rounds_of(
    connect: str, group_size: int, partitions: int, rounds: int
) -> tuple[dict[str, list[float]], float]:
    """Let members join and leave in turn.

    Returns:
        seconds until all is claimed, for joins and for leaves; seconds of one small read.
    """
    with ZkSession(connect) as zk:
        topics.create_topic(zk, "t", {n: [1] for n in range(partitions)})
        members = [Member(connect, n) for n in range(group_size)]
        settle_s(members, partitions, lambda: None)
        times: dict[str, list[float]] = {"join": [], "leave": []}
        trips: list[float] = []
        for number in range(group_size, group_size + rounds):
            for _ in range(20):
                started = time.perf_counter()
                groups.members(zk, "g")
                trips.append(time.perf_counter() - started)

            def join(number: int = number) -> None:
                members.append(Member(connect, number))

            times["join"].append(settle_s(members, partitions, join))
            leaving = members.pop(0)
            times["leave"].append(settle_s(members, partitions, leaving.leave))
        for member in members:
            member.leave()
    return times, statistics.median(trips)
