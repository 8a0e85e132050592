"""Situations that chance puts together too seldom, each as steps that wait for one another.

    late high watermark   leaders die while a follower, told of a new epoch, has not fetched yet
    double failover       two leaders in short order, each with messages that nobody else has
    unheard epochs        a follower fetches on from its leader, which was another's meanwhile
    led between           a leader does not hear that another led; its follower does, and cuts
    joining behind        a leader dies when a replica joins whose log ends in an earlier epoch
    growth unheard of     an ISR grows in ZooKeeper, and its leader does not hear of it
    decided anew          that member is elected, and the leader goes on with another follower
    chase                 every new leader is killed soon
    torn                  all power goes just after something was acknowledged
    zombie controller     a controller is deposed in the middle, and goes on
    unread directory      a topic is deleted while a broker cannot read what it has of it
    bounce                a broker loses its power and is back before anybody has missed it
    beside a new disk     meanwhile another broker, with a new disk, has left the ISR
    deleted again         a broker is slow to delete a topic, which is made and deleted again
    lost disk             the last replica in sync comes back with an empty directory
    leader's new disk     all die; the leader, with an empty directory, comes back first
    late request          what a controller asked for arrives when the topic is gone and made anew

Invariant: an aim causes faults only; what must hold without it must hold with it. Its steps give
back how long to wait (s); every wait for something ends after some time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.simulated_steps import (
    Steps,
    again_and_again,
    all_in_sync,
    knows,
    led_by,
    led_by_another,
    led_by_the_second,
    others,
    pick,
    until,
)
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import LeaderAndIsrRequest
from zkbroker.registry import paths
from zkbroker.replica.fencing import states_in

if TYPE_CHECKING:
    from tests.support.simulated_cluster import SimCluster
    from tests.support.simulated_node import SimNode

NEVER = 2**63 - 1


@dataclass(frozen=True)
class Aim:
    """Steps to follow, and what they need.

    Args:
        steps: see there.
        flush_messages: None for any.
        brokers: how many; None for any.
        seconds: for how long.
        by_chance: whether a seed may choose it. (An aim more would make other schedules of the
            seeds that are known.)
    """

    steps: Callable[["SimCluster"], Steps]
    flush_messages: int | None = None
    brokers: int | None = None
    seconds: float = 20.0
    by_chance: bool = True


def late_high_watermark(cluster: "SimCluster") -> Steps:
    """The next leader dies when a follower was told of it and has perhaps cut its log."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None:
        return
    acks = cluster.acks
    cluster.produce(leader, key, 2, -1)
    yield from until(lambda: cluster.acks > acks, for_s=1.0)
    yield random.uniform(0.0, 0.01)
    faults.kill(leader, random.uniform(5.0, 8.0))
    first = leader.id
    yield from until(lambda: led_by_another(cluster, key, first), for_s=5.0)
    second = cluster.leader_of(key)
    if second is None:
        return
    epoch = cluster.truth.decided[key]["leader_epoch"]
    yield from until(
        lambda: any(knows(each, key, epoch) for each in others(cluster, key, second)),
        for_s=1.0,
        every_s=0.002,
    )
    yield random.uniform(0.0, 0.02)
    faults.kill(second, random.uniform(4.0, 6.0))
    yield random.uniform(4.0, 5.0)


def double_failover(cluster: "SimCluster") -> Steps:
    """The first leader has messages that nobody has, and never hears from the second; the second
    gives some to the third, and dies; the first leads again, unheard by the third; and dies."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    replicas = yield from led_by_the_second(cluster, key)
    if replicas is None:
        return
    second, first, third = replicas
    faults.cut(first.id, second.id, 6.5)
    faults.cut(first.id, third.id, 6.5)
    cluster.produce(first, key, random.randint(2, 4), 1)
    yield random.uniform(0.0, 0.1)
    faults.elect_preferred()
    yield from until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    cluster.produce(second, key, 1, 1)
    yield random.uniform(0.2, 0.9)
    faults.kill(second, random.uniform(6.0, 9.0))
    yield from until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    cluster.produce(first, key, random.randint(1, 3), 1)
    yield random.uniform(0.05, 0.9)
    faults.kill(first, random.uniform(3.5, 5.0))
    yield from until(lambda: led_by(cluster, key, third.id), for_s=5.0)
    cluster.produce(third, key, random.randint(1, 3), 1)
    yield random.uniform(1.0, 8.0)


def unheard_epochs(cluster: "SimCluster") -> Steps:
    """A follower has messages that its leader has cut off since, under another leader, and hears of
    neither change: it fetches on from the same leader, in the epoch of before."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    replicas = yield from led_by_the_second(cluster, key)
    if replicas is None:
        return
    second, first, third = replicas
    outside = next(each for each in cluster.nodes if cluster.nodes[each] not in replicas)
    faults.cut(first.id, second.id, 0.7)
    faults.cut(third.id, outside, 8.0)
    yield 0.02
    cluster.produce(first, key, random.randint(1, 3), 1)
    yield random.uniform(0.1, 0.5)
    faults.elect_preferred()
    yield from until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    cluster.produce(second, key, random.randint(1, 4), 1)
    yield random.uniform(0.5, 1.2)
    faults.kill(second, random.uniform(6.0, 9.0))
    yield from until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    for _ in range(4):
        cluster.produce(first, key, random.randint(1, 3), -1)
        yield random.uniform(0.05, 0.4)
    if random.random() < 0.5:
        faults.kill(first, random.uniform(3.5, 5.0))
    yield random.uniform(3.0, 6.0)


def led_between(cluster: "SimCluster") -> Steps:
    """A leader is replaced for a while and does not hear of it; its follower does, and cuts what
    it has. The one between dies, with the controller; the first leads again, and dies."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    replicas = yield from led_by_the_second(cluster, key)
    if replicas is None:
        return
    between, first, follower = replicas
    outside = next(each for each in cluster.nodes.values() if each not in replicas)
    epoch = cluster.truth.decided[key]["leader_epoch"]
    for each in (between, outside):
        faults.cut(first.id, each.id, 5.0)
    cluster.produce(first, key, random.randint(1, 3), -1)
    yield random.uniform(0.05, 0.3)
    faults.elect_preferred()
    yield from until(lambda: knows(follower, key, epoch + 1), for_s=0.5)
    faults.cut(first.id, follower.id, random.uniform(2.5, 6.0))
    cluster.produce(between, key, random.randint(1, 2), 1)
    yield random.uniform(0.0, 0.3)
    for each in (between, outside):
        faults.kill(each, random.uniform(6.0, 9.0))
    yield from until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    yield random.uniform(0.0, 0.5)
    faults.kill(first, random.uniform(3.5, 5.0))
    yield random.uniform(4.0, 6.0)


def joining_behind(cluster: "SimCluster") -> Steps:
    """What waits for a replica that lags is acknowledged when it is dropped. The next leader has
    heard of that not yet; the replica behind joins; and both leaders die."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    replicas = yield from led_by_the_second(cluster, key)
    if replicas is None:
        return
    second, first, behind = replicas
    faults.cut(first.id, behind.id, 4.0)
    acks = cluster.acks
    for _ in range(3):
        cluster.produce(first, key, random.randint(1, 3), -1)
        yield 0.05
    yield from until(
        lambda: behind.id not in cluster.truth.decided[key]["isr"], for_s=4.0, every_s=0.0005
    )
    faults.cut(first.id, second.id, 6.0)
    yield from until(lambda: cluster.acks > acks, for_s=0.2, every_s=0.001)
    faults.elect_preferred()
    yield from until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    yield from until(
        lambda: behind.id in cluster.truth.decided[key]["isr"], for_s=1.2, every_s=0.0005
    )
    faults.cut(second.id, behind.id, 3.0)
    yield random.uniform(0.0, 0.02)
    faults.kill(second, random.uniform(5.0, 9.0))
    faults.kill(first, random.uniform(5.0, 9.0))
    yield random.uniform(5.0, 7.0)


def growth_unheard_of(cluster: "SimCluster") -> Steps:
    """A leader writes its growing ISR, and does not hear that it is stored; the new member does not
    hear from it, and is elected."""
    random, faults = cluster.random, cluster.faults
    grown: list[int] = []
    key = pick(cluster)

    def stored(which: Any, last: Any, now: Any) -> None:
        if which == key and last is not None and last["leader_epoch"] == now["leader_epoch"]:
            joined = set(now["isr"]) - set(last["isr"])
            if joined and not grown:
                grown.extend(joined)
                leader = cluster.nodes[now["leader"]]
                faults.part_from_zookeeper(leader, random.uniform(1.0, 6.0))
                faults.cut(leader.id, grown[0], 4.0)

    leader = cluster.leader_of(key)
    if leader is None:
        return
    behind = random.choice(others(cluster, key, leader))
    faults.kill(behind, random.uniform(3.5, 4.5))
    yield 3.2
    cluster.truth.on_stored.append(stored)
    yield from until(lambda: grown, for_s=6.0, every_s=0.002)
    cluster.truth.on_stored.remove(stored)
    leader = cluster.leader_of(key)
    if grown and leader is not None:
        for _ in range(3):
            cluster.produce(leader, key, 1, -1)
            yield random.uniform(0.0, 0.3)
        faults.kill(leader, random.uniform(4.0, 8.0))
        for each in others(cluster, key, leader, cluster.nodes[grown[0]]):
            faults.kill(each, random.uniform(4.0, 8.0))
    yield random.uniform(4.0, 7.0)


def decided_anew(cluster: "SimCluster") -> Steps:
    """A leader does not hear that its grown ISR is stored, nor that the new member was elected
    since; another follower does not hear of that either, and fetches on."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    replicas = yield from led_by_the_second(cluster, key)
    if replicas is None:
        return
    joining, leader, other = replicas
    outside = next(each for each in cluster.nodes if cluster.nodes[each] not in replicas)
    faults.kill(joining, 3.4)
    yield 3.4
    yield from until(
        lambda: joining.id not in cluster.truth.decided[key]["isr"], for_s=2.0, every_s=0.001
    )
    yield from until(
        lambda: joining.id in cluster.truth.decided[key]["isr"], for_s=5.0, every_s=0.0005
    )
    faults.part_from_zookeeper(leader, random.uniform(0.3, 1.5))
    faults.cut(leader.id, joining.id, 5.0)
    for each in (leader, other):
        faults.cut(each.id, outside, 5.0)
    faults.elect_preferred()
    for _ in range(10):
        cluster.produce(leader, key, 1, -1)
        yield random.uniform(0.05, 0.5)
    yield random.uniform(1.0, 4.0)


def chase(cluster: "SimCluster") -> Steps:
    """Every new leader is killed soon."""
    random = cluster.random

    def hunt(node: "SimNode") -> None:
        if cluster.disturbing and len(cluster.live()) > 1 and not cluster.faults.alone:
            cluster.faults.kill(node, random.uniform(0.1, 3.0))

    def leads(node: "SimNode", partition: Any) -> None:
        if random.random() < 0.7:
            soon = cluster.clock.now + random.uniform(0.1, 1.5)
            cluster.clock.at(soon, None, lambda: hunt(node))

    cluster.truth.on_leads.append(leads)
    while True:
        yield random.expovariate(1.0)
        cluster.faults.next()


def torn(cluster: "SimCluster") -> Steps:
    """All power goes just after something was acknowledged."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None:
        return
    acks = cluster.acks
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield from until(lambda: cluster.acks > acks, for_s=1.0, every_s=0.001)
    first = random.choice((leader.id, None))
    for each in cluster.live():
        # It is back when the next leader is elected, or before anybody else.
        late = random.uniform(3.5, 6.0) if each.id == first else random.uniform(0.1, 3.0)
        faults.kill(each, late, power=True)
    yield random.uniform(3.0, 6.0)


def zombie_controller(cluster: "SimCluster") -> Steps:
    """A controller is deposed, and does not hear of it, while it decides what a death asks for;
    what it has written arrives when the dead one is back."""
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    active = [each for each in cluster.live() if each.controller.active]
    live = [each for each in cluster.live() if each not in active]
    if len(active) != 1 or not live:
        return
    victim = random.choice(live)
    faults.kill(victim, random.uniform(2.0, 3.3))
    known = paths.broker(victim.id)
    owner = nodes[known].owner if known in nodes else 0
    yield from until(
        lambda: known not in nodes or nodes[known].owner != owner, for_s=4.0, every_s=0.001
    )
    yield random.uniform(0.0, 0.02)
    if random.random() < 0.3:
        faults.freeze(active[0], random.uniform(1.0, 5.5))
    else:
        faults.part_from_zookeeper(active[0], random.uniform(0.5, 1.9))
    faults.depose()
    yield random.uniform(2.0, 4.0)
    if random.random() < 0.5:
        faults.elect_preferred()


def bounce(cluster: "SimCluster") -> Steps:
    """A leader loses its power, with what others have and its disk has not, and is back before
    anybody missed it: the controller died with it. What it appends then is not what others have."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    active = [each for each in cluster.live() if each.controller.active]
    if leader is None or leader in active or not active or faults.alone:
        return
    count = random.randint(1, 3)
    cluster.produce(leader, key, count, 1)
    yield random.uniform(0.005, 0.1)
    faults.kill(leader, random.uniform(0.05, 0.4), power=cluster.flushes)
    faults.kill(active[0], random.uniform(4.0, 6.0))
    yield from until(lambda: led_by(cluster, key, leader.id), for_s=5.0, every_s=0.001)
    if led_by(cluster, key, leader.id):
        cluster.produce(cluster.nodes[leader.id], key, count, 1)
    yield random.uniform(1.0, 4.5)


def beside_a_new_disk(cluster: "SimCluster") -> Steps:
    """As `bounce`; before the next controller comes, a follower leaves the ISR, since it has a new
    disk."""
    random, faults, clock = cluster.random, cluster.faults, cluster.clock
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    active = [each for each in cluster.live() if each.controller.active]
    if leader is None or leader in active or not active or faults.alone or cluster.real:
        return
    renewed = next((each for each in others(cluster, key, leader, *active) if each.alive), None)
    if renewed is None or renewed.disk.broken is not None or key not in renewed.disk.logs:
        return
    faults.kill(active[0], random.uniform(4.0, 6.0))
    cluster.produce(leader, key, random.randint(1, 3), 1)
    yield random.uniform(0.005, 0.1)
    faults.kill(leader, random.uniform(0.05, 0.4), power=cluster.flushes)
    renewed.fail_disk(renewed.disk.logs[key].directory)
    faults.repair_disk(renewed.id, random.uniform(0.5, 1.5), emptied=True)
    # Also when the steps end before that.
    faults.lasts(14.0)
    clock.at(clock.now + 10.0, None, lambda: faults.find_disk(renewed.id))
    yield from until(lambda: led_by(cluster, key, leader.id), for_s=6.0, every_s=0.001)
    if led_by(cluster, key, leader.id):
        cluster.produce(cluster.nodes[leader.id], key, random.randint(1, 3), 1)
    yield 8.0


def unread_directory(cluster: "SimCluster") -> Steps:
    """A topic is deleted while a broker cannot read the directory that has it."""
    random, faults = cluster.random, cluster.faults
    if not cluster.assignment("d"):
        faults.make_or_delete_topic()
    key = TopicPartition("d", 0)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    replicas = cluster.assignment(key.topic).get(key.partition, ())
    if cluster.real or not all_in_sync(cluster, key):
        return
    node = cluster.nodes[random.choice(replicas)]
    if node.disk.broken is not None or not node.alive or key not in node.disk.logs:
        return
    node.fail_disk(node.disk.logs[key].directory)
    faults.kill(node, random.uniform(0.3, 4.0))
    yield random.uniform(0.0, 2.0)
    if cluster.assignment("d"):
        faults.make_or_delete_topic()
    yield random.uniform(5.0, 7.0)
    if node.disk.broken is not None:
        faults.repair_disk(node.id, 0.3)
    yield 4.0


def deleted_again(cluster: "SimCluster") -> Steps:
    """A broker is asked twice to delete a topic, since another one bounces, and has answered once
    when the topic is made and deleted again."""
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    if not cluster.assignment("d"):
        faults.make_or_delete_topic()
    key = TopicPartition("d", 0)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    active = [each for each in cluster.live() if each.controller.active]
    if len(active) != 1 or not all_in_sync(cluster, key):
        return
    slow, bouncing = random.sample(others(cluster, key, active[0]), 2)
    faults.freeze(slow, random.uniform(0.5, 1.4))
    faults.make_or_delete_topic()
    faults.kill(bouncing, 0.05)
    yield from until(lambda: paths.topic("d") not in nodes, for_s=10.0, every_s=0.001)
    if paths.topic("d") not in nodes:
        faults.make_or_delete_topic()
        yield from until(lambda: cluster.leader_of(key), for_s=3.0, every_s=0.001)
        faults.make_or_delete_topic()
    yield from until(lambda: paths.topic("d") not in nodes, for_s=5.0)


def lost_disk(cluster: "SimCluster") -> Steps:
    """The leader goes on alone, and its broker is started again with an empty directory; what it
    had is found later."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None or cluster.real or leader.disk.broken is not None or leader.disk.lost:
        return
    for each in others(cluster, key, leader):
        faults.kill(each, random.uniform(7.0, 12.0))
    yield from until(lambda: cluster.truth.decided[key]["isr"] == [leader.id], for_s=6.0)
    if not led_by(cluster, key, leader.id) or cluster.truth.decided[key]["isr"] != [leader.id]:
        return
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield random.uniform(0.1, 0.5)
    if not leader.alive or leader.disk.broken is not None or key not in leader.disk.logs:
        return
    leader.fail_disk(leader.disk.logs[key].directory)
    empty_s, down_s, found_s = random.uniform(0.0, 1.0), random.uniform(0.1, 2.0), 10.0
    # Also when the steps end before that.
    clock = cluster.clock
    faults.lasts(found_s + 4.0)
    clock.at(clock.now + empty_s, None, lambda: faults.repair_disk(leader.id, down_s, emptied=True))
    clock.at(clock.now + found_s, None, lambda: faults.find_disk(leader.id))
    yield found_s + 4.0


def leaders_new_disk(cluster: "SimCluster") -> Steps:
    """All brokers are killed, and the leader's directory is emptied; it comes back first, and is
    alone for long enough to be the controller."""
    random, faults = cluster.random, cluster.faults
    key = pick(cluster)
    yield from until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    live = cluster.live()
    if leader is None or cluster.real or len(live) < len(cluster.nodes) or faults.alone:
        return
    if any(each.disk.broken is not None or each.disk.new for each in live):
        return
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield random.uniform(0.1, 0.5)
    alone = any(state["isr"] == [leader.id] for state in cluster.truth.decided.values())
    if not leader.alive or key not in leader.disk.logs or alone:
        return
    back_s, alone_s = random.uniform(0.1, 4.0), random.uniform(0.0, 5.0)
    for each in live:
        late_s = 0.0 if each is leader else alone_s + random.uniform(0.0, 1.0)
        faults.kill(each, back_s + late_s)
    leader.disk.broken = leader.disk.logs[key].directory
    leader.disk.repair(emptied=True)
    leader.disk.lost.clear()
    yield back_s + alone_s + random.uniform(4.0, 8.0)


def late_request(cluster: "SimCluster") -> Steps:
    """A controller is not answered, and asks again through another connection; what it sent first
    arrives when the topic is deleted, and is made again after that."""
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    if cluster.assignment("d"):
        faults.make_or_delete_topic()
    yield from until(lambda: paths.topic("d") not in nodes, for_s=10.0)
    active = [each for each in cluster.live() if each.controller.active]
    if len(active) != 1 or paths.topic("d") in nodes:
        return
    faults.make_or_delete_topic()
    key = TopicPartition("d", 0)
    slow = random.choice(others(cluster, key, active[0]))
    held = cluster.network.hold(
        active[0].id,
        slow.id,
        lambda request: (
            isinstance(request, LeaderAndIsrRequest)
            and any(topic == "d" for topic, _ in states_in(request))
        ),
    )
    yield from until(lambda: all_in_sync(cluster, key) and knows(slow, key, 0), for_s=6.0)
    if cluster.assignment("d"):
        faults.make_or_delete_topic()
    yield from until(lambda: paths.topic("d") not in nodes, for_s=10.0, every_s=0.001)
    cluster.network.release(held)
    yield random.uniform(0.0, 0.5)
    if paths.topic("d") not in nodes:
        faults.make_or_delete_topic()
    yield random.uniform(0.5, 3.0)


AIMS = {
    "late high watermark": Aim(again_and_again(late_high_watermark)),
    "double failover": Aim(again_and_again(double_failover), NEVER, 4, 26.0),
    "unheard epochs": Aim(again_and_again(unheard_epochs), NEVER, 4, 26.0),
    "led between": Aim(again_and_again(led_between), NEVER, 4, 26.0),
    "joining behind": Aim(again_and_again(joining_behind), NEVER, 4, 26.0),
    "growth unheard of": Aim(again_and_again(growth_unheard_of), NEVER),
    "decided anew": Aim(again_and_again(decided_anew), NEVER, 4, 26.0),
    "chase": Aim(chase),
    "torn": Aim(again_and_again(torn), 1),
    "zombie controller": Aim(again_and_again(zombie_controller)),
    "bounce": Aim(again_and_again(bounce), 1),
    "unread directory": Aim(again_and_again(unread_directory)),
    "deleted again": Aim(again_and_again(deleted_again), by_chance=False),
    "beside a new disk": Aim(again_and_again(beside_a_new_disk), 1, by_chance=False),
    "lost disk": Aim(again_and_again(lost_disk), by_chance=False),
    "leader's new disk": Aim(again_and_again(leaders_new_disk), by_chance=False),
    "late request": Aim(again_and_again(late_request), by_chance=False),
}
