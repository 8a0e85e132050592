"""The problems of a cluster, as text for probes and people.

    no brokers         none is registered
    no controller      no broker elects leaders
    broker missing     replicas are assigned to a broker that is not registered
    offline            partitions that no broker serves
    under-replicated   partitions with replicas that are not in sync
    below min ISR      partitions that refuse acks=all
    offline directory  a data directory that its broker does not use any more

Invariant: a partition without a leader is named once, as offline. Topics under deletion are not
    checked.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.admin.broker_queries import LogDirectory
from zkbroker.admin.topics import TopicDescription
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Args:
        problem: a name for programs, such as `offline_partitions`.
        text: the problem, without the partitions.
        partitions: the partitions that have it.
    """

    problem: str
    text: str
    partitions: tuple[PartitionKey, ...] = ()


def find_problems(
    described: Sequence[TopicDescription],
    brokers: Collection[int],
    controller: int | None,
    min_isr: Mapping[str, int],
) -> list[Problem]:
    """Return the problems of a cluster; none if it is healthy.

    Args:
        described: its topics.
        brokers: ids that are registered.
        controller: id of the controller; None while there is none.
        min_isr: topic → `min.insync.replicas`; it is not checked for other topics.
    """
    found: list[Problem] = []
    if not brokers:
        found.append(Problem("no_brokers", "no broker is registered"))
    if controller is None:
        found.append(Problem("no_controller", "no broker is the controller"))
    elif controller not in brokers:
        text = f"the controller is broker {controller}, which is not registered"
        found.append(Problem("no_controller", text))
    missing: defaultdict[int, list[PartitionKey]] = defaultdict(list)
    offline: list[PartitionKey] = []
    behind: list[PartitionKey] = []
    below: list[PartitionKey] = []
    for topic in described:
        if topic.marked_for_deletion:
            continue
        for each in topic.partitions:
            key = (topic.topic, each.partition)
            for broker in each.replicas:
                if broker not in brokers:
                    missing[broker].append(key)
            if each.leader is None or not each.available:
                offline.append(key)
                continue
            if each.under_replicated:
                behind.append(key)
            if len(each.isr) < min_isr.get(topic.topic, 0):
                below.append(key)
    found += [
        Problem(
            "broker_missing",
            f"broker {broker} is not registered and has replicas",
            tuple(keys),
        )
        for broker, keys in sorted(missing.items())
    ]
    for name, text, keys in (
        ("offline_partitions", "partitions that no broker serves", offline),
        ("under_replicated_partitions", "partitions with replicas that are not in sync", behind),
        (
            "under_min_isr_partitions",
            "partitions that refuse acks=all: fewer replicas in sync than min.insync.replicas",
            below,
        ),
    ):
        if keys:
            found.append(Problem(name, text, tuple(keys)))
    return found


def offline_directories(directories: Mapping[int, Sequence[LogDirectory]]) -> list[Problem]:
    """Return a problem for each data directory that its broker does not use any more.

    Args:
        directories: of each broker that answered.
    """
    return [
        Problem(
            "offline_directory",
            f"data directory {each.path} of broker {broker} is offline: {each.error}",
        )
        for broker, known in sorted(directories.items())
        for each in known
        if each.error
    ]
