"""A partition as a coordinator uses it: written under acks=all, read back to its end.

Invariant: it is of use under one leadership only. Once another broker leads, every write and wait
fails; the coordinator is told to leave the partition.
"""

from collections.abc import Callable

from zkbroker.log.epochs import LeaderEpochs
from zkbroker.log.producers.stability import Verification
from zkbroker.log.results import AppendResult
from zkbroker.replica.delayed import wait_for_acks
from zkbroker.replica.partition import Partition, ReadEnd, Unacknowledged
from zkbroker.runtime import Park, Runtime, unparked


class StoredLog:
    """A partition that is led here.

    Args:
        partition: the partition.
        runtime: to wait with.
        clock: monotonic seconds.
    """

    def __init__(self, partition: Partition, runtime: Runtime, clock: Callable[[], float]) -> None:
        self._partition = partition
        self._runtime = runtime
        self._clock = clock
        self._term = partition.term

    @property
    def log_start_offset(self) -> int:
        return self._partition.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def epochs(self) -> LeaderEpochs:
        return self._partition.log.epochs

    def append_as_leader(
        self,
        data: bytearray,
        *,
        leader_epoch: int = -1,
        now_ms: int | None = None,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Append; refused with too few replicas in sync (19), as with acks=all."""
        return self._partition.append(
            data, acks=-1, term=self._term, now_ms=now_ms, verification=verification
        ).result

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Begin to ask whether a transaction may begin; see `Log.begin_verification`."""
        return self._partition.begin_verification(producer_id, producer_epoch)

    def wait_durable(
        self, last_offset: int, timeout_s: float | None = None, park: Park = unparked
    ) -> None:
        """Wait until every replica in sync has what ends at an offset, and it is flushed.

        Args:
            last_offset: where it ends.
            timeout_s: how long it may take; None for as long as it takes.
            park: entered if there is something to wait for.

        Raises:
            NotLeaderForPartition: another broker leads now; whether it survives is unknown.
            RequestTimedOut: not within the time.
            StorageError: the disk failed.
        """
        (error,) = wait_for_acks(
            [Unacknowledged(self._partition, last_offset, self._term)],
            -1,
            timeout_s,
            runtime=self._runtime,
            clock=self._clock,
            park=park,
        )
        if error is not None:
            raise error

    def read_bytes(self, offset: int, max_bytes: int, *, end: int) -> bytes:
        """Read to the log's end: what a predecessor wrote may not be below the high watermark."""
        return self._partition.read_bytes(offset, max_bytes, reader=ReadEnd.LOG_END)
