"""Offsets by time over a whole cluster, each leader asked once."""

from collections.abc import Mapping

from zkbroker.consumer.fetcher import ClusterView
from zkbroker.consumer.lookup import LATEST_TIME, list_offsets
from zkbroker.consumer.partition import TopicPartition
from zkbroker.errors import LeaderNotAvailable, ProtocolError


def resolve_offsets(
    cluster: ClusterView, times: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int | None]:
    """Return an offset for a time in each partition.

    Args:
        cluster: tells leaders and gives connections.
        times: milliseconds, `LATEST_TIME` or `EARLIEST_TIME` for each partition.
        read_committed: a log ends at its last stable offset.

    Returns:
        The offset of the first message at or after the time, None when there is none so late.

    Raises:
        LeaderNotAvailable: a partition has no leader at the moment.
        ProtocolError: a broker does not answer, or refuses.
    """
    if any(cluster.leader(*key) is None for key in times):
        cluster.refresh(sorted({topic for topic, _ in times}))
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for key, time_ms in times.items():
        leader = cluster.leader(*key)
        if leader is None:
            raise LeaderNotAvailable(f"{key[0]}-{key[1]} has no leader")
        by_leader.setdefault(leader, {})[key] = time_ms
    found: dict[TopicPartition, int | None] = {}
    for leader, wanted in by_leader.items():
        connection = cluster.connection(leader)
        answers = list_offsets(connection, wanted, read_committed=read_committed)
        for key, offsets in answers.items():
            if isinstance(offsets, ProtocolError):
                raise offsets
            found[key] = offsets[0] if offsets else None
    return found


def resolve_or_end(
    cluster: ClusterView, times: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return an offset for a time in each partition, its end when no message is as late."""
    found = resolve_offsets(cluster, times, read_committed=read_committed)
    late = {key: LATEST_TIME for key, offset in found.items() if offset is None}
    if late:
        found.update(resolve_offsets(cluster, late, read_committed=read_committed))
    return {key: offset or 0 for key, offset in found.items()}
