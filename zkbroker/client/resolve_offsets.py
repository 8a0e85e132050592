"""Offsets by time over a whole cluster, each leader asked once for all its partitions.

    known leaders ──ask all at once──▶ answers ──some leader moved──▶ refresh ──▶ ask for the rest

Invariant: only the leader of a partition answers for it. The leaders of the partitions left over,
which moved or are not elected yet, are looked up again: once at least, and until the time given is
over. A leader that does not answer is given up as soon as others lead its partitions.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from zkbroker.client.cluster import Cluster
from zkbroker.client.leader_retries import LEADER_WAIT_S, retry_requests
from zkbroker.client.list_offsets import LATEST_TIME, listed_offsets, send_list_offsets
from zkbroker.errors import ClientError, ProtocolError, ZkbrokerError
from zkbroker.network.client.connection import Pending
from zkbroker.types import PartitionKey

_LOOK_AGAIN_S = 2.0
"""How long an answer may take before a look-up checks whether the leaders have moved."""
_LOOKS = 5

Key = TypeVar("Key", bound=PartitionKey)


def resolve_offsets(
    cluster: Cluster,
    times: Mapping[Key, int],
    *,
    read_committed: bool = False,
    timeout_s: float = LEADER_WAIT_S,
) -> dict[Key, int | None]:
    """Return an offset for a time in each partition.

    Args:
        cluster: knows leaders and gives connections.
        times: milliseconds, `LATEST_TIME` or `EARLIEST_TIME` for each partition.
        read_committed: whether a log ends at its last stable offset.
        timeout_s: how long to look for leaders that move; with 0 fresh metadata is tried once.

    Returns:
        The offset of the first message at or after the time, None without one.

    Raises:
        LeaderNotAvailable: a partition has no leader at the moment.
        ProtocolError: a broker does not answer, or refuses.
        ZkbrokerError: a broker or the source of metadata cannot be reached.
    """
    found: dict[PartitionKey, int | None] = {}

    def ask() -> None:
        missing: dict[PartitionKey, int] = {
            key: time_ms for key, time_ms in times.items() if key not in found
        }
        error = _ask_leaders(cluster, missing, read_committed, found)
        if error is not None:
            raise error

    retry_requests(cluster, {topic for topic, _ in times}, ask, timeout_s=timeout_s)
    return {key: found[key] for key in times}


def _ask_leaders(
    cluster: Cluster,
    times: Mapping[PartitionKey, int],
    read_committed: bool,
    found: dict[PartitionKey, int | None],
) -> ZkbrokerError | None:
    """Ask every leader once; return the first error of partitions not found, if any."""
    error: ZkbrokerError | None = None
    by_leader: dict[int, dict[PartitionKey, int]] = {}
    for key, time_ms in times.items():
        leader = cluster.leader(*key)
        if leader is None:
            error = error or cluster.no_leader(*key)
        else:
            by_leader.setdefault(leader, {})[key] = time_ms
    asked: list[tuple[int, Mapping[PartitionKey, int], Pending]] = []
    for leader, wanted in by_leader.items():
        epochs = {key: cluster.leader_epoch(*key) for key in wanted}
        try:
            connection = cluster.connection(leader)
            pending = send_list_offsets(
                connection, wanted, read_committed=read_committed, epochs=epochs
            )
            asked.append((leader, wanted, pending))
        except (ProtocolError, ClientError) as failure:
            error = error or failure
    for leader, keys, pending in asked:
        try:
            _leave_if_moved(cluster, leader, keys, pending)
            answers = listed_offsets(pending)
        except ProtocolError as failure:
            error = error or failure
            continue
        for key, offsets in answers.items():
            if isinstance(offsets, ProtocolError):
                error = error or offsets
            else:
                found[key] = offsets[0] if offsets else None
    return error


def _leave_if_moved(
    cluster: Cluster, leader: int, keys: Iterable[PartitionKey], pending: Pending
) -> None:
    """Wait for an answer, long only while the broker still leads one of the partitions."""
    for _ in range(_LOOKS):
        if pending.wait(_LOOK_AGAIN_S):
            return
        with suppress(ZkbrokerError):  # the known leaders stay
            cluster.refresh(sorted({topic for topic, _ in keys}))
        if all(cluster.leader(*key) not in (leader, None) for key in keys):
            pending.result(0)


def resolve_or_end(
    cluster: Cluster,
    times: Mapping[Key, int],
    *,
    read_committed: bool = False,
    timeout_s: float = LEADER_WAIT_S,
) -> dict[Key, int]:
    """Return an offset for a time in each partition, the log end without a later message."""
    found = resolve_offsets(cluster, times, read_committed=read_committed, timeout_s=timeout_s)
    late = {key: LATEST_TIME for key, offset in found.items() if offset is None}
    if late:
        found.update(
            resolve_offsets(cluster, late, read_committed=read_committed, timeout_s=timeout_s)
        )
    return {key: offset or 0 for key, offset in found.items()}
