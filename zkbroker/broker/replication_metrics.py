"""Metrics of the replicas of a broker, under the names of Kafka's JMX beans.

Invariant: they are made from the present state of the partitions, without further counters.
"""

from dataclasses import dataclass
from typing import ClassVar

from zkbroker.broker.services import BrokerServices


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationFigures:
    """Args: max_lag is in messages; bytes_in and bytes_out are those of replication only."""

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    max_lag: int = 0
    failed: int = 0
    fetchers: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    GAUGES: ClassVar = (
        ("partitions", "PartitionCount"),
        ("leaders", "LeaderCount"),
        ("under_replicated", "UnderReplicatedPartitions"),
        ("under_min_isr", "UnderMinIsrPartitionCount"),
        ("at_min_isr", "AtMinIsrPartitionCount"),
        ("offline", "OfflineReplicaCount"),
        ("max_lag", "MaxLag"),
        ("failed", "FailedPartitionsCount"),
        ("fetchers", "FetcherCount"),
    )
    COUNTERS: ClassVar = (
        ("isr_shrinks", "IsrShrinksPerSec"),
        ("isr_expands", "IsrExpandsPerSec"),
        ("bytes_in", "ReplicationBytesInPerSec"),
        ("bytes_out", "ReplicationBytesOutPerSec"),
    )


def replication_figures(services: BrokerServices) -> ReplicationFigures:
    """Return the metrics of a broker."""
    found, fetchers = services.replicas.all(), services.fetchers
    led = [each.leading for each in found if each.leading is not None]
    spare = [len(each.isr.members) - each.log.config.min_insync_replicas for each in led]
    return ReplicationFigures(
        partitions=len(found),
        leaders=len(led),
        under_replicated=sum(len(each.isr.members) < len(each.replicas) for each in led),
        under_min_isr=sum(each < 0 for each in spare),
        at_min_isr=spare.count(0),
        offline=sum(each.offline for each in found),
        max_lag=max(fetchers.lags().values(), default=0),
        failed=len(fetchers.failed),
        fetchers=fetchers.fetchers,
        isr_shrinks=sum(each.isr_changes[0] for each in found),
        isr_expands=sum(each.isr_changes[1] for each in found),
        bytes_in=fetchers.bytes_in,
        bytes_out=services.metrics.replication_bytes_out,
    )
