import random

import pytest

from tests.support.members import Consumer, IndependentMember
from tests.support.zookeeper import expire, until
from zkbroker.rebalance import range_assign, roundrobin_assign, thread_ids
from zkbroker.registry import groups, paths, topics
from zkbroker.zookeeper import ZkSession


def settled(zk: ZkSession, group: str, topic: str, count: int, live: list[str]) -> bool:
    """Whether the owner nodes match the range assignment."""
    threads = [thread for consumer in live for thread in thread_ids(consumer, 1)]
    wanted = range_assign({topic: range(count)}, {topic: threads})
    return groups.owners(zk, group, topic) == {n: thread for (_, n), thread in wanted.items()}


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_members_share_partitions_while_joining_and_leaving(
    zk: ZkSession, chroot: str, runtime: str
) -> None:
    topics.create_topic(zk, "t", {n: [1] for n in range(10)})
    consumers = [Consumer(chroot, "g", {"t": 1}, runtime=runtime) for _ in range(3)]
    until(lambda: settled(zk, "g", "t", 10, [c.id for c in consumers]))
    until(lambda: sorted(len(c.owned) for c in consumers) == [3, 3, 4])
    consumers.pop().close()
    until(lambda: settled(zk, "g", "t", 10, [c.id for c in consumers]))
    topics.add_partitions(zk, "t", {n: [1] for n in range(10, 17)})
    until(lambda: settled(zk, "g", "t", 17, [c.id for c in consumers]))
    until(lambda: set.union(*(c.owned for c in consumers)) == {("t", n) for n in range(17)})
    for consumer in consumers:
        consumer.close()
    assert groups.members(zk, "g") == []
    assert groups.owners(zk, "g", "t") == {}


def test_rebalance_stops_commits_and_loads_in_order(zk: ZkSession, chroot: str) -> None:
    topics.create_topic(zk, "t", {0: [1], 1: [1]})
    calls: list[str] = []

    class Listener:
        def before_releasing_partitions(self, owned: object) -> None:
            calls.append(f"release {sorted(owned)}")
            raise RuntimeError("a listener's fault")

        def before_starting_fetchers(self, consumer_id: str, owned: object) -> None:
            calls.append(f"start {sorted(owned)}")

    first = Consumer(chroot, "g", {"t": 1}, consumer_id="g_1", listeners=[Listener()])
    assert first.rebalancer.settled.wait(20)
    first.member.log.clear()
    second = Consumer(chroot, "g", {"t": 1}, consumer_id="g_2")
    until(lambda: first.owned == {("t", 0)} and second.owned == {("t", 1)})
    assert first.member.log == ["stop", "commit", "load", "start"]
    assert first.member.loaded == {("t", 0): 0}
    assert calls == [
        "start [('t', 0), ('t', 1)]",
        "release [('t', 0), ('t', 1)]",
        "start [('t', 0)]",
    ]
    first.close()
    second.close()


def test_change_without_new_share_causes_no_rebalance(zk: ZkSession, chroot: str) -> None:
    topics.create_topic(zk, "t", {0: [1], 1: [1]})
    topics.create_topic(zk, "u", {0: [1]})
    consumer = Consumer(chroot, "g", {"t": 1})
    assert consumer.rebalancer.settled.wait(20)
    before = list(consumer.member.log)
    other = Consumer(chroot, "g", {"u": 1})
    zk.create(paths.broker(1), b"{}", ephemeral=True, parents=True)
    assert other.rebalancer.settled.wait(20)
    until(lambda: other.owned == {("u", 0)})
    assert consumer.member.log == before
    other.close()
    consumer.close()


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_lost_session_drops_ownership_before_rejoin(
    zk: ZkSession, chroot: str, runtime: str
) -> None:
    topics.create_topic(zk, "t", {n: [1] for n in range(4)})
    consumer = Consumer(chroot, "g", {"t": 1}, runtime=runtime)
    other = Consumer(chroot, "g", {"t": 1})
    until(lambda: len(consumer.owned) == len(other.owned) == 2)
    consumer.member.log.clear()
    expire(consumer.session)
    until(lambda: "start" in consumer.member.log and len(other.owned) == 2)
    assert consumer.member.log[0] == "pause"
    acts = [act for act in consumer.member.log if act not in {"pause", "resume"}]
    assert acts[0] == "drop"
    assert "commit" not in acts[: acts.index("start")]
    until(lambda: settled(zk, "g", "t", 4, [consumer.id, other.id]))
    consumer.close()
    other.close()


def test_removed_member_registers_again(zk: ZkSession, chroot: str) -> None:
    topics.create_topic(zk, "t", {0: [1]})
    consumer = Consumer(chroot, "g", {"t": 1})
    assert consumer.rebalancer.settled.wait(20)
    zk.delete(paths.consumer("g", consumer.id))
    until(lambda: groups.members(zk, "g") == [consumer.id])
    until(lambda: settled(zk, "g", "t", 1, [consumer.id]))
    consumer.close()


def test_blocked_member_retries_until_owner_is_gone(zk: ZkSession, chroot: str) -> None:
    topics.create_topic(zk, "t", {n: [1] for n in range(3)})
    zk.create(paths.owner("g", "t", 1), b"gone_consumer-0", parents=True)
    consumer = Consumer(chroot, "g", {"t": 1})
    until(lambda: consumer.rebalancer.rebalances >= 3)
    assert consumer.owned == set()
    assert not consumer.rebalancer.settled.is_set()
    zk.delete(paths.owner("g", "t", 1))
    assert consumer.rebalancer.settled.wait(20)
    assert len(consumer.owned) == 3
    consumer.close()


def test_filter_includes_later_topics(zk: ZkSession, chroot: str) -> None:
    def compile_filter(pattern: str, expression: str):
        assert pattern == "white_list"
        if expression == "[":
            raise ValueError("no regular expression")
        return lambda name: name.startswith(expression.removesuffix(".*"))

    consumer = Consumer(
        chroot, "g", {"a.*": 2}, pattern="white_list", compile_filter=compile_filter
    )
    assert consumer.rebalancer.settled.wait(20)
    assert consumer.owned == set()
    groups.register_consumer(zk, "g", "bad", groups.StreamSubscription({"[": 1}, "white_list"))
    topics.create_topic(zk, "a1", {0: [1], 1: [1]})
    topics.create_topic(zk, "b", {0: [1]})
    until(lambda: consumer.member.owned == {("a1", 0): 0, ("a1", 1): 1})
    zk.create(paths.CONTROLLER_EPOCH, b"1")
    topics.remove_topic(zk, "a1", 0)
    until(lambda: consumer.owned == set())
    consumer.close()


def test_member_waits_for_missing_topic(zk: ZkSession, chroot: str) -> None:
    consumer = Consumer(chroot, "g", {"late": 1})
    assert consumer.rebalancer.settled.wait(20)
    zk.create(paths.topic("late"), parents=True)
    zk.set(paths.topic("late"), topics.encode_assignment({0: [1]}))
    until(lambda: consumer.owned == {("late", 0)})
    consumer.close()


def test_round_robin_members_share_all_topics(zk: ZkSession, chroot: str) -> None:
    for name in ("t", "u"):
        topics.create_topic(zk, name, {n: [1] for n in range(3)})
    consumers = [Consumer(chroot, "g", {"t": 1, "u": 1}, strategy="roundrobin") for _ in range(2)]
    threads = [f"{c.id}-0" for c in consumers]
    wanted = roundrobin_assign({"t": range(3), "u": range(3)}, dict.fromkeys(("t", "u"), threads))
    for consumer in consumers:
        mine = {key for key, thread in wanted.items() if thread == f"{consumer.id}-0"}
        until(lambda consumer=consumer, mine=mine: consumer.owned == mine)
        assert len(mine) == 3
    for consumer in consumers:
        consumer.close()


def test_group_includes_independently_written_member(zk: ZkSession, chroot: str) -> None:
    seed = random.Random(7)
    topics.create_topic(zk, "t", {n: [1] for n in range(13)})
    zk.ensure_path(paths.BROKER_IDS)
    live: list[Consumer | IndependentMember] = []
    try:
        for _ in range(12):
            if len(live) > 4 or (live and seed.random() < 0.3):
                live.pop(seed.randrange(len(live))).close()
            else:
                kind = IndependentMember if seed.random() < 0.5 else Consumer
                live.append(kind(chroot, "g", {"t": 1}))
            if live:
                until(lambda: settled(zk, "g", "t", 13, [member.id for member in live]))
        assert {type(member) for member in live} == {IndependentMember, Consumer}
        for member in live:
            if isinstance(member, IndependentMember):
                assert member.problem is None
    finally:
        for member in live:
            member.close()
