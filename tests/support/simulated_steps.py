"""Conditions and waits from which the steps of aims are built.

Invariant: a step yields the seconds until the next one; a wait for a condition has a time limit.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from zkbroker.log import TopicPartition

if TYPE_CHECKING:
    from tests.support.simulated_cluster import SimCluster
    from tests.support.simulated_node import SimNode

POLL_S = 0.01
Steps = Iterator[float]


def wait_until(condition: Callable[[], Any], *, for_s: float, every_s: float = POLL_S) -> Steps:
    """Wait for a condition, at most for some time."""
    for _ in range(int(for_s / every_s)):
        if condition():
            return
        yield every_s


def all_in_sync(cluster: "SimCluster", key: TopicPartition) -> bool:
    state = cluster.checker.stored_states.get(key)
    replicas = cluster.assignment(key.topic).get(key.partition, ())
    return (
        state is not None
        and set(state["isr"]) == set(replicas)
        and cluster.leader_of(key) is not None
    )


def random_partition(cluster: "SimCluster") -> TopicPartition:
    return cluster.random.choice([key for key in cluster.keys if key.topic == "t"])


def led_by(cluster: "SimCluster", key: TopicPartition, broker: int) -> bool:
    leader = cluster.leader_of(key)
    return leader is not None and leader.id == broker


def led_by_other_than(cluster: "SimCluster", key: TopicPartition, broker: int) -> bool:
    leader = cluster.leader_of(key)
    return leader is not None and leader.id != broker


def has_epoch(node: "SimNode", key: TopicPartition, epoch: int) -> bool:
    """Return whether a live broker has received a leader epoch or a later one."""
    partition = node.partition(key)
    return node.alive and partition is not None and partition.leader_epoch >= epoch


def other_replicas(
    cluster: "SimCluster", key: TopicPartition, *excluded: "SimNode"
) -> list["SimNode"]:
    ids = {each.id for each in excluded}
    replicas = cluster.assignment(key.topic)[key.partition]
    return [cluster.nodes[each] for each in replicas if each not in ids]


def repeated(episode: Callable[["SimCluster"], Steps]) -> Callable[["SimCluster"], Steps]:
    """Return the steps of an endlessly repeated episode, with pauses of some seconds."""

    def steps(cluster: "SimCluster") -> Steps:
        while True:
            yield from episode(cluster)
            yield cluster.random.uniform(0.5, 4.0)

    return steps


def elect_second_replica(
    cluster: "SimCluster", key: TopicPartition
) -> Generator[float, None, list["SimNode"] | None]:
    """Make a broker without a replica the controller, and the second replica the leader.

    Return the three replicas, the preferred one first; None if this was not reached, or the
    partition has more or fewer replicas.
    """
    replicas = cluster.assignment(key.topic)[key.partition]
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    if led_by(cluster, key, replicas[0]):
        cluster.faults.kill(cluster.nodes[replicas[0]], 3.5)
        yield 4.0
    for _ in range(10):
        active = [each.id for each in cluster.live() if each.controller.active]
        if active and active[0] not in replicas:
            break
        cluster.faults.depose()
        yield 0.5
    yield from wait_until(lambda: all_in_sync(cluster, key), for_s=8.0)
    replicas = cluster.assignment(key.topic)[key.partition]
    if len(replicas) != 3 or not led_by(cluster, key, replicas[1]):
        return None
    return [cluster.nodes[each] for each in replicas]
