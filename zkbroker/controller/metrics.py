"""The metrics of a broker's controller, under the names of Kafka's JMX beans.

Invariant: every metric except the counters is 0 while another broker is the controller.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from zkbroker.controller.partitions import ElectionCounts
from zkbroker.controller.term import ControllerTerm


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """The metrics at one moment."""

    active: int = 0
    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0
    topics_to_delete: int = 0
    topics: int = 0
    partitions: int = 0
    leader_elections: int = 0
    unclean_leader_elections: int = 0
    queued_requests: dict[int, int] = field(default_factory=dict)
    """Requests that wait, by broker."""

    GAUGES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("active", "ActiveControllerCount"),
        ("offline_partitions", "OfflinePartitionsCount"),
        ("preferred_replica_imbalance", "PreferredReplicaImbalanceCount"),
        ("topics_to_delete", "TopicsToDeleteCount"),
        ("topics", "GlobalTopicCount"),
        ("partitions", "GlobalPartitionCount"),
    )
    """Pairs of an attribute and the name of its JMX bean."""
    COUNTERS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("leader_elections", "LeaderElectionsPerSec"),
        ("unclean_leader_elections", "UncleanLeaderElectionsPerSec"),
    )


def controller_metrics(
    term: ControllerTerm | None, counts: ElectionCounts, queued: dict[int, int]
) -> ControllerMetrics:
    """Return the present metrics.

    Args:
        term: the term of the active controller; None while another broker is the controller.
        counts: the elections of this broker's terms.
        queued: requests that wait, by broker.
    """
    if term is None:
        return ControllerMetrics(
            leader_elections=counts.elections, unclean_leader_elections=counts.unclean
        )
    context = term.context
    return ControllerMetrics(
        active=1,
        offline_partitions=context.count(lambda key: not context.has_leader(key)),
        preferred_replica_imbalance=context.count(lambda key: not context.led_by_first(key)),
        topics_to_delete=len(context.deleting),
        topics=len(context.assignments),
        partitions=sum(map(len, context.assignments.values())),
        queued_requests=queued,
        leader_elections=counts.elections,
        unclean_leader_elections=counts.unclean,
    )
