"""Queries of a consumer to the leaders: offsets by time, log starts and log ends."""

from collections.abc import Callable, Iterable, Mapping

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets, resolve_or_end
from zkbroker.types import PartitionKey

OffsetsOf = Callable[[Iterable[PartitionKey]], Mapping[PartitionKey, int]]


class OffsetQueries:
    """Asks for offsets.

    Args:
        cluster: knows leaders and gives connections.
        read_committed: whether a log ends where its first open transaction begins.
        timeout_s: how long to look for leaders.
    """

    def __init__(self, cluster: Cluster, *, read_committed: bool, timeout_s: float) -> None:
        self._cluster = cluster
        self._read_committed = read_committed
        self._timeout_s = timeout_s

    def at_times(self, times: Mapping[PartitionKey, int]) -> dict[PartitionKey, int | None]:
        """Return the offset of the first message at or after a time, None without one.

        Args:
            times: milliseconds for each partition.

        Raises:
            ProtocolError: a leader does not answer, or refuses.
        """
        return resolve_offsets(
            self._cluster,
            times,
            read_committed=self._read_committed,
            timeout_s=self._timeout_s,
        )

    def beginnings(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return the log start offset of each partition."""
        return self._ends(dict.fromkeys(partitions, EARLIEST_TIME))

    def ends(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return the offset of the next message to be written to each partition.

        With `isolation.level=read_committed` it is where the first open transaction begins.
        """
        return self._ends(dict.fromkeys(partitions, LATEST_TIME))

    def _ends(self, times: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        return resolve_or_end(
            self._cluster,
            times,
            read_committed=self._read_committed,
            timeout_s=self._timeout_s,
        )
