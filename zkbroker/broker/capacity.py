"""How many partitions a broker can hold open, from its limit of file descriptors.

    limit = (descriptors - those for connections, read segments and the rest) / those of a partition

Invariant: a request to create a partition beyond the limit gets an error; a partition that appears
in another way is not served. Neither affects the partitions that are served.
"""

import resource
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from zkbroker.errors import ErrorCode, ProtocolError

OF_A_PARTITION = 3
"""The files of its active segment: the log, the offset index and the time index."""
_OF_A_READ_SEGMENT = 3
_LEAST_FOR_CONNECTIONS = 64
_CONNECTIONS_SHARE = 8


def descriptor_limit() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class PartitionCapacity:
    """Counts partitions of one broker against its limit.

    Args:
        read_segments: segments that are kept open between reads.
        descriptors: returns how many files may be open.
    """

    def __init__(
        self, read_segments: int, descriptors: Callable[[], int] = descriptor_limit
    ) -> None:
        self._read_segments = read_segments
        self._descriptors = descriptors

    @property
    def limit(self) -> int:
        """How many partitions can be held open."""
        descriptors = self._descriptors()
        connections = max(_LEAST_FOR_CONNECTIONS, descriptors // _CONNECTIONS_SHARE)
        read = min(self._read_segments * _OF_A_READ_SEGMENT, descriptors // 4)
        return max(0, descriptors - connections - read) // OF_A_PARTITION

    def check(self, held: Iterable[Sequence[int]], added: Iterable[Sequence[int]]) -> None:
        """Refuse new partitions if one of their brokers would hold too many.

        The other brokers are assumed to have the same limit of files as this one.

        Args:
            held: replicas of every existing partition.
            added: replicas of every new partition.

        Raises:
            ProtocolError: INVALID_PARTITIONS; the message tells which limit to raise.
        """
        counts = Counter(broker for replicas in added for broker in replicas)
        for replicas in held:
            for broker in replicas:
                if broker in counts:
                    counts[broker] += 1
        limit = self.limit
        for broker, count in sorted(counts.items()):
            if count > limit:
                raise ProtocolError(
                    f"Broker {broker} would hold {count} partitions; with {self._descriptors()} "
                    f"open files (ulimit -n) it can hold {limit}.",
                    code=ErrorCode.INVALID_PARTITIONS,
                )
