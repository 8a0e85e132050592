"""Queries of a consumer to the leaders: offsets by time, log starts and log ends."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets, resolve_or_end
from zkbroker.types import PartitionKey

OffsetsOf = Callable[[Iterable[PartitionKey]], Mapping[PartitionKey, int]]


@dataclass(frozen=True, slots=True)
class OffsetQueries:
    """Asks for offsets.

    Args:
        cluster: knows leaders and gives connections.
        read_committed: whether a log ends where its first open transaction begins.
        timeout_s: how long to look for leaders.
    """

    cluster: Cluster
    read_committed: bool = field(kw_only=True)
    timeout_s: float = field(kw_only=True)

    def at_times(self, times: Mapping[PartitionKey, int]) -> dict[PartitionKey, int | None]:
        """Return the offset of the first message at or after a time, None without one.

        Args:
            times: milliseconds for each partition.

        Raises:
            ProtocolError: a leader does not answer, or refuses.
        """
        return resolve_offsets(
            self.cluster,
            times,
            read_committed=self.read_committed,
            timeout_s=self.timeout_s,
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
            self.cluster,
            times,
            read_committed=self.read_committed,
            timeout_s=self.timeout_s,
        )
