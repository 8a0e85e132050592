"""Situations that random faults rarely build, each as a sequence of steps.

    late high watermark        leaders die before a follower fetches in the new epoch
    double failover            two leaders die soon after each other, each with unreplicated records
    follower misses epochs     a follower keeps fetching from its leader, and misses that another
                               broker led in between
    leader misses epoch        a leader misses that another broker led; its follower truncates
    lagging replica joins      a leader dies when a replica joins whose log ends in an old epoch
    unconfirmed ISR growth     a grown ISR is stored, but the leader gets no answer
    superseded leader          the new member is elected, while the old leader and a follower go on
    every leader killed        every new leader is killed soon
    power cut after ack        all brokers lose power just after a record was acknowledged
    zombie controller          a controller is deposed during its work, and goes on
    unreadable directory       a topic is deleted while a broker cannot read its log
    unnoticed restart          a leader loses power and restarts before the controller notices
    unnoticed restart, new disk
                               and another broker with a new disk leaves the ISR meanwhile
    repeated deletion          a topic is created and deleted again before a slow broker answers
    last replica loses disk    the last replica in sync restarts with an empty directory
    leader loses disk          all brokers die; the leader restarts first, with an empty directory
    late controller request    a request arrives after its topic was deleted and created again

Invariant: an aim only causes faults; all safety rules apply to it. A step yields the seconds until
the next one; every wait for a condition has a time limit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.simulated_logs import NEVER
from tests.support.simulated_steps import (
    Steps,
    all_in_sync,
    elect_second_replica,
    has_epoch,
    led_by,
    led_by_other_than,
    other_replicas,
    random_partition,
    repeated,
    wait_until,
)
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import LeaderAndIsrRequest
from zkbroker.registry import paths
from zkbroker.replica.fencing import states_in

if TYPE_CHECKING:
    from tests.support.simulated_cluster import SimCluster
    from tests.support.simulated_node import SimNode


@dataclass(frozen=True)
class Aim:
    """The steps of a situation, and the cluster that they need.

    Args:
        steps: returns the steps for a cluster.
        flush_messages: setting of the logs; None for any.
        brokers: the number of brokers; None for any.
        seconds: the length of the disturbed phase.
        by_chance: whether a seed may choose this aim. (One more such aim would change the
            schedules of all known seeds.)
    """

    steps: Callable[["SimCluster"], Steps]
    flush_messages: int | None = None
    brokers: int | None = None
    seconds: float = 20.0
    by_chance: bool = True


def late_high_watermark(cluster: "SimCluster") -> Steps:
    """The next leader dies after a follower received its epoch and perhaps truncated its log."""
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None:
        return
    acks = cluster.acks
    cluster.produce(leader, key, 2, -1)
    yield from wait_until(lambda: cluster.acks > acks, for_s=1.0)
    yield random.uniform(0.0, 0.01)
    faults.kill(leader, random.uniform(5.0, 8.0))
    first = leader.id
    yield from wait_until(lambda: led_by_other_than(cluster, key, first), for_s=5.0)
    second = cluster.leader_of(key)
    if second is None:
        return
    epoch = cluster.checker.stored_states[key]["leader_epoch"]
    yield from wait_until(
        lambda: any(has_epoch(each, key, epoch) for each in other_replicas(cluster, key, second)),
        for_s=1.0,
        every_s=0.002,
    )
    yield random.uniform(0.0, 0.02)
    faults.kill(second, random.uniform(4.0, 6.0))
    yield random.uniform(4.0, 5.0)


def double_failover(cluster: "SimCluster") -> Steps:
    """Two leaders append records without hearing of each other.

    The first leader has unreplicated records and is cut off from the second; the second replicates
    some of its own to the third and dies; the first leads again, cut off from the third, and dies.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    replicas = yield from elect_second_replica(cluster, key)
    if replicas is None:
        return
    second, first, third = replicas
    faults.cut(first.id, second.id, 6.5)
    faults.cut(first.id, third.id, 6.5)
    cluster.produce(first, key, random.randint(2, 4), 1)
    yield random.uniform(0.0, 0.1)
    faults.elect_preferred()
    yield from wait_until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    cluster.produce(second, key, 1, 1)
    yield random.uniform(0.2, 0.9)
    faults.kill(second, random.uniform(6.0, 9.0))
    yield from wait_until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    cluster.produce(first, key, random.randint(1, 3), 1)
    yield random.uniform(0.05, 0.9)
    faults.kill(first, random.uniform(3.5, 5.0))
    yield from wait_until(lambda: led_by(cluster, key, third.id), for_s=5.0)
    cluster.produce(third, key, random.randint(1, 3), 1)
    yield random.uniform(1.0, 8.0)


def follower_misses_epochs(cluster: "SimCluster") -> Steps:
    """A follower has records that its leader has truncated since.

    The leader followed another one for a while. The follower misses both changes and keeps fetching
    from the same leader in the old epoch.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    replicas = yield from elect_second_replica(cluster, key)
    if replicas is None:
        return
    second, first, third = replicas
    outsider = next(each for each in cluster.nodes if cluster.nodes[each] not in replicas)
    faults.cut(first.id, second.id, 0.7)
    faults.cut(third.id, outsider, 8.0)
    yield 0.02
    cluster.produce(first, key, random.randint(1, 3), 1)
    yield random.uniform(0.1, 0.5)
    faults.elect_preferred()
    yield from wait_until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    cluster.produce(second, key, random.randint(1, 4), 1)
    yield random.uniform(0.5, 1.2)
    faults.kill(second, random.uniform(6.0, 9.0))
    yield from wait_until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    for _ in range(4):
        cluster.produce(first, key, random.randint(1, 3), -1)
        yield random.uniform(0.05, 0.4)
    if random.random() < 0.5:
        faults.kill(first, random.uniform(3.5, 5.0))
    yield random.uniform(3.0, 6.0)


def leader_misses_epoch(cluster: "SimCluster") -> Steps:
    """A leader is replaced for a while and misses it, but its follower truncates its log.

    The interim leader dies together with the controller; the first one leads again, and dies.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    replicas = yield from elect_second_replica(cluster, key)
    if replicas is None:
        return
    between, first, follower = replicas
    outsider = next(each for each in cluster.nodes.values() if each not in replicas)
    epoch = cluster.checker.stored_states[key]["leader_epoch"]
    for each in (between, outsider):
        faults.cut(first.id, each.id, 5.0)
    cluster.produce(first, key, random.randint(1, 3), -1)
    yield random.uniform(0.05, 0.3)
    faults.elect_preferred()
    yield from wait_until(lambda: has_epoch(follower, key, epoch + 1), for_s=0.5)
    faults.cut(first.id, follower.id, random.uniform(2.5, 6.0))
    cluster.produce(between, key, random.randint(1, 2), 1)
    yield random.uniform(0.0, 0.3)
    for each in (between, outsider):
        faults.kill(each, random.uniform(6.0, 9.0))
    yield from wait_until(lambda: led_by(cluster, key, first.id), for_s=5.0)
    yield random.uniform(0.0, 0.5)
    faults.kill(first, random.uniform(3.5, 5.0))
    yield random.uniform(4.0, 6.0)


def lagging_replica_joins(cluster: "SimCluster") -> Steps:
    """A lagging replica joins the ISR of a leader with a late high watermark.

    Records are acknowledged when the lagging replica leaves the ISR. The next leader does not know
    of the acknowledgement; the replica joins; both leaders die.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    replicas = yield from elect_second_replica(cluster, key)
    if replicas is None:
        return
    second, first, behind = replicas
    faults.cut(first.id, behind.id, 4.0)
    acks = cluster.acks
    for _ in range(3):
        cluster.produce(first, key, random.randint(1, 3), -1)
        yield 0.05
    yield from wait_until(
        lambda: behind.id not in cluster.checker.stored_states[key]["isr"],
        for_s=4.0,
        every_s=0.0005,
    )
    faults.cut(first.id, second.id, 6.0)
    yield from wait_until(lambda: cluster.acks > acks, for_s=0.2, every_s=0.001)
    faults.elect_preferred()
    yield from wait_until(lambda: led_by(cluster, key, second.id), for_s=1.0)
    yield from wait_until(
        lambda: behind.id in cluster.checker.stored_states[key]["isr"], for_s=1.2, every_s=0.0005
    )
    faults.cut(second.id, behind.id, 3.0)
    yield random.uniform(0.0, 0.02)
    faults.kill(second, random.uniform(5.0, 9.0))
    faults.kill(first, random.uniform(5.0, 9.0))
    yield random.uniform(5.0, 7.0)


def unconfirmed_isr_growth(cluster: "SimCluster") -> Steps:
    """A leader stores a grown ISR and gets no answer; the new member is cut off and elected."""
    random, faults = cluster.random, cluster.faults
    grown: list[int] = []
    key = random_partition(cluster)

    def stored(stored_key: Any, last: Any, now: Any) -> None:
        if stored_key == key and last is not None and last["leader_epoch"] == now["leader_epoch"]:
            joined = set(now["isr"]) - set(last["isr"])
            if joined and not grown:
                grown.extend(joined)
                leader = cluster.nodes[now["leader"]]
                faults.cut_zookeeper(leader, random.uniform(1.0, 6.0))
                faults.cut(leader.id, grown[0], 4.0)

    leader = cluster.leader_of(key)
    if leader is None:
        return
    behind = random.choice(other_replicas(cluster, key, leader))
    faults.kill(behind, random.uniform(3.5, 4.5))
    yield 3.2
    cluster.checker.on_state_stored.append(stored)
    yield from wait_until(lambda: grown, for_s=6.0, every_s=0.002)
    cluster.checker.on_state_stored.remove(stored)
    leader = cluster.leader_of(key)
    if grown and leader is not None:
        for _ in range(3):
            cluster.produce(leader, key, 1, -1)
            yield random.uniform(0.0, 0.3)
        faults.kill(leader, random.uniform(4.0, 8.0))
        for each in other_replicas(cluster, key, leader, cluster.nodes[grown[0]]):
            faults.kill(each, random.uniform(4.0, 8.0))
    yield random.uniform(4.0, 7.0)


def superseded_leader(cluster: "SimCluster") -> Steps:
    """A leader misses that its grown ISR was stored and that the new member was elected.

    Another follower misses the election, too, and keeps fetching from the old leader.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    replicas = yield from elect_second_replica(cluster, key)
    if replicas is None:
        return
    joining, leader, other = replicas
    outsider = next(each for each in cluster.nodes if cluster.nodes[each] not in replicas)
    faults.kill(joining, 3.4)
    yield 3.4
    yield from wait_until(
        lambda: joining.id not in cluster.checker.stored_states[key]["isr"],
        for_s=2.0,
        every_s=0.001,
    )
    yield from wait_until(
        lambda: joining.id in cluster.checker.stored_states[key]["isr"], for_s=5.0, every_s=0.0005
    )
    faults.cut_zookeeper(leader, random.uniform(0.3, 1.5))
    faults.cut(leader.id, joining.id, 5.0)
    for each in (leader, other):
        faults.cut(each.id, outsider, 5.0)
    faults.elect_preferred()
    for _ in range(10):
        cluster.produce(leader, key, 1, -1)
        yield random.uniform(0.05, 0.5)
    yield random.uniform(1.0, 4.0)


def every_leader_killed(cluster: "SimCluster") -> Steps:
    """Every new leader is killed soon."""
    random = cluster.random

    def kill(node: "SimNode") -> None:
        if cluster.disturbing and len(cluster.live()) > 1 and not cluster.faults.exclusive:
            cluster.faults.kill(node, random.uniform(0.1, 3.0))

    def kill_soon(node: "SimNode", partition: Any) -> None:
        if random.random() < 0.7:
            soon = cluster.clock.now + random.uniform(0.1, 1.5)
            cluster.clock.at(soon, None, lambda: kill(node))

    cluster.checker.on_leadership.append(kill_soon)
    while True:
        yield random.expovariate(1.0)
        cluster.faults.next()


def power_cut_after_ack(cluster: "SimCluster") -> Steps:
    """All brokers lose power just after a record was acknowledged."""
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None:
        return
    acks = cluster.acks
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield from wait_until(lambda: cluster.acks > acks, for_s=1.0, every_s=0.001)
    first = random.choice((leader.id, None))
    for each in cluster.live():
        # It restarts after the next leader was elected, or before that.
        late = random.uniform(3.5, 6.0) if each.id == first else random.uniform(0.1, 3.0)
        faults.kill(each, late, power=True)
    yield random.uniform(3.0, 6.0)


def zombie_controller(cluster: "SimCluster") -> Steps:
    """A controller misses that it was deposed while it elects leaders after a broker's death.

    Its writes arrive when the dead broker has restarted.
    """
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    active = [each for each in cluster.live() if each.controller.active]
    live = [each for each in cluster.live() if each not in active]
    if len(active) != 1 or not live:
        return
    victim = random.choice(live)
    faults.kill(victim, random.uniform(2.0, 3.3))
    known = paths.broker(victim.id)
    owner = nodes[known].owner if known in nodes else 0
    yield from wait_until(
        lambda: known not in nodes or nodes[known].owner != owner, for_s=4.0, every_s=0.001
    )
    yield random.uniform(0.0, 0.02)
    if random.random() < 0.3:
        faults.freeze(active[0], random.uniform(1.0, 5.5))
    else:
        faults.cut_zookeeper(active[0], random.uniform(0.5, 1.9))
    faults.depose()
    yield random.uniform(2.0, 4.0)
    if random.random() < 0.5:
        faults.elect_preferred()


def unnoticed_restart(cluster: "SimCluster") -> Steps:
    """A leader loses power and restarts unnoticed, since the controller died with it.

    It has lost records that the other replicas have, and appends different ones at their offsets.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    active = [each for each in cluster.live() if each.controller.active]
    if leader is None or leader in active or not active or faults.exclusive:
        return
    count = random.randint(1, 3)
    cluster.produce(leader, key, count, 1)
    yield random.uniform(0.005, 0.1)
    faults.kill(leader, random.uniform(0.05, 0.4), power=cluster.flushes)
    faults.kill(active[0], random.uniform(4.0, 6.0))
    yield from wait_until(lambda: led_by(cluster, key, leader.id), for_s=5.0, every_s=0.001)
    if led_by(cluster, key, leader.id):
        cluster.produce(cluster.nodes[leader.id], key, count, 1)
    yield random.uniform(1.0, 4.5)


def unnoticed_restart_new_disk(cluster: "SimCluster") -> Steps:
    """A leader restarts unnoticed, and a follower with a new disk leaves the ISR meanwhile."""
    random, faults, clock = cluster.random, cluster.faults, cluster.clock
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    active = [each for each in cluster.live() if each.controller.active]
    if leader is None or leader in active or not active or faults.exclusive or cluster.real:
        return
    renewed = next(
        (each for each in other_replicas(cluster, key, leader, *active) if each.alive), None
    )
    if renewed is None or renewed.disk.broken is not None or key not in renewed.disk.logs:
        return
    faults.kill(active[0], random.uniform(4.0, 6.0))
    cluster.produce(leader, key, random.randint(1, 3), 1)
    yield random.uniform(0.005, 0.1)
    faults.kill(leader, random.uniform(0.05, 0.4), power=cluster.flushes)
    renewed.fail_disk(renewed.disk.logs[key].directory)
    faults.repair_disk(renewed.id, random.uniform(0.5, 1.5), emptied=True)
    # Restored even if these steps end earlier.
    faults.extend(14.0)
    clock.at(clock.now + 10.0, None, lambda: faults.restore_disk(renewed.id))
    yield from wait_until(lambda: led_by(cluster, key, leader.id), for_s=6.0, every_s=0.001)
    if led_by(cluster, key, leader.id):
        cluster.produce(cluster.nodes[leader.id], key, random.randint(1, 3), 1)
    yield 8.0


def unreadable_directory(cluster: "SimCluster") -> Steps:
    """A topic is deleted while a broker cannot read the directory with its log."""
    random, faults = cluster.random, cluster.faults
    if not cluster.assignment("d"):
        faults.create_or_delete_topic()
    key = TopicPartition("d", 0)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
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
        faults.create_or_delete_topic()
    yield random.uniform(5.0, 7.0)
    if node.disk.broken is not None:
        faults.repair_disk(node.id, 0.3)
    yield 4.0


def repeated_deletion(cluster: "SimCluster") -> Steps:
    """A topic is created and deleted again before a slow broker has answered both first requests.

    The broker receives the first deletion twice, since another broker restarts.
    """
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    if not cluster.assignment("d"):
        faults.create_or_delete_topic()
    key = TopicPartition("d", 0)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    active = [each for each in cluster.live() if each.controller.active]
    if len(active) != 1 or not all_in_sync(cluster, key):
        return
    slow, restarting = random.sample(other_replicas(cluster, key, active[0]), 2)
    faults.freeze(slow, random.uniform(0.5, 1.4))
    faults.create_or_delete_topic()
    faults.kill(restarting, 0.05)
    yield from wait_until(lambda: paths.topic("d") not in nodes, for_s=10.0, every_s=0.001)
    if paths.topic("d") not in nodes:
        faults.create_or_delete_topic()
        yield from wait_until(lambda: cluster.leader_of(key), for_s=3.0, every_s=0.001)
        faults.create_or_delete_topic()
    yield from wait_until(lambda: paths.topic("d") not in nodes, for_s=5.0)


def last_replica_loses_disk(cluster: "SimCluster") -> Steps:
    """The last replica in sync restarts with an empty directory; its logs are restored later."""
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    if leader is None or cluster.real or leader.disk.broken is not None or leader.disk.lost:
        return
    for each in other_replicas(cluster, key, leader):
        faults.kill(each, random.uniform(7.0, 12.0))
    yield from wait_until(
        lambda: cluster.checker.stored_states[key]["isr"] == [leader.id], for_s=6.0
    )
    if not led_by(cluster, key, leader.id) or cluster.checker.stored_states[key]["isr"] != [
        leader.id
    ]:
        return
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield random.uniform(0.1, 0.5)
    if not leader.alive or leader.disk.broken is not None or key not in leader.disk.logs:
        return
    leader.fail_disk(leader.disk.logs[key].directory)
    empty_s, down_s, restored_s = random.uniform(0.0, 1.0), random.uniform(0.1, 2.0), 10.0
    # Restored even if these steps end earlier.
    clock = cluster.clock
    faults.extend(restored_s + 4.0)
    clock.at(clock.now + empty_s, None, lambda: faults.repair_disk(leader.id, down_s, emptied=True))
    clock.at(clock.now + restored_s, None, lambda: faults.restore_disk(leader.id))
    yield restored_s + 4.0


def leader_loses_disk(cluster: "SimCluster") -> Steps:
    """All brokers are killed; the leader restarts first, with an empty directory.

    It is alone for long enough to become the controller.
    """
    random, faults = cluster.random, cluster.faults
    key = random_partition(cluster)
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    leader = cluster.leader_of(key)
    live = cluster.live()
    if leader is None or cluster.real or len(live) < len(cluster.nodes) or faults.exclusive:
        return
    if any(each.disk.broken is not None or each.disk.new for each in live):
        return
    cluster.produce(leader, key, random.randint(1, 3), -1)
    yield random.uniform(0.1, 0.5)
    alone = any(state["isr"] == [leader.id] for state in cluster.checker.stored_states.values())
    if not leader.alive or key not in leader.disk.logs or alone:
        return
    restart_s, alone_s = random.uniform(0.1, 4.0), random.uniform(0.0, 5.0)
    for each in live:
        late_s = 0.0 if each is leader else alone_s + random.uniform(0.0, 1.0)
        faults.kill(each, restart_s + late_s)
    leader.disk.broken = leader.disk.logs[key].directory
    leader.disk.repair(emptied=True)
    leader.disk.lost.clear()
    yield restart_s + alone_s + random.uniform(4.0, 8.0)


def late_controller_request(cluster: "SimCluster") -> Steps:
    """A controller repeats a request through a new connection; the first one arrives later.

    Meanwhile the topic was deleted; it is created again after that.
    """
    random, faults, nodes = cluster.random, cluster.faults, cluster.server.nodes
    if cluster.assignment("d"):
        faults.create_or_delete_topic()
    yield from wait_until(lambda: paths.topic("d") not in nodes, for_s=10.0)
    active = [each for each in cluster.live() if each.controller.active]
    if len(active) != 1 or paths.topic("d") in nodes:
        return
    faults.create_or_delete_topic()
    key = TopicPartition("d", 0)
    slow = random.choice(other_replicas(cluster, key, active[0]))
    held = cluster.network.hold(
        active[0].id,
        slow.id,
        lambda request: (
            isinstance(request, LeaderAndIsrRequest)
            and any(topic == "d" for topic, _ in states_in(request))
        ),
    )
    yield from wait_until(lambda: all_in_sync(cluster, key) and has_epoch(slow, key, 0), for_s=6.0)
    if cluster.assignment("d"):
        faults.create_or_delete_topic()
    yield from wait_until(lambda: paths.topic("d") not in nodes, for_s=10.0, every_s=0.001)
    cluster.network.release(held)
    yield random.uniform(0.0, 0.5)
    if paths.topic("d") not in nodes:
        faults.create_or_delete_topic()
    yield random.uniform(0.5, 3.0)


AIMS = {
    # The order of the aims by chance decides which of them a seed chooses.
    "unnoticed restart": Aim(repeated(unnoticed_restart), 1),
    "every leader killed": Aim(every_leader_killed),
    "superseded leader": Aim(repeated(superseded_leader), NEVER, 4, 26.0),
    "double failover": Aim(repeated(double_failover), NEVER, 4, 26.0),
    "unconfirmed ISR growth": Aim(repeated(unconfirmed_isr_growth), NEVER),
    "lagging replica joins": Aim(repeated(lagging_replica_joins), NEVER, 4, 26.0),
    "late high watermark": Aim(repeated(late_high_watermark)),
    "leader misses epoch": Aim(repeated(leader_misses_epoch), NEVER, 4, 26.0),
    "power cut after ack": Aim(repeated(power_cut_after_ack), 1),
    "follower misses epochs": Aim(repeated(follower_misses_epochs), NEVER, 4, 26.0),
    "unreadable directory": Aim(repeated(unreadable_directory)),
    "zombie controller": Aim(repeated(zombie_controller)),
    "repeated deletion": Aim(repeated(repeated_deletion), by_chance=False),
    "unnoticed restart, new disk": Aim(repeated(unnoticed_restart_new_disk), 1, by_chance=False),
    "last replica loses disk": Aim(repeated(last_replica_loses_disk), by_chance=False),
    "leader loses disk": Aim(repeated(leader_loses_disk), by_chance=False),
    "late controller request": Aim(repeated(late_controller_request), by_chance=False),
}
