"""A partition as a coordinator uses it: written under acks=all, read back to its end.

Invariant: it belongs to one leadership. Once that is over, every write and wait fails.
"""

from dataclasses import dataclass

from zkbroker.log.producers.stability import Verification
from zkbroker.log.results import AppendResult
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.reads import ReadEnd
from zkbroker.runtime import Lock, Park, Runtime, unparked


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A partition that is led here. Args: runtime to wait with."""

    leadership: Leadership
    runtime: Runtime

    @property
    def lock(self) -> Lock:
        return self.leadership.replica.lock

    @property
    def log_start_offset(self) -> int:
        return self.leadership.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.leadership.log.log_end_offset

    def append(
        self,
        data: bytearray,
        *,
        now_ms: int | None = None,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Append as with acks=all: refused (19) with too few replicas in sync."""
        return self.leadership.append(data, acks=-1, now_ms=now_ms, verification=verification)

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Verification | None:
        """Begin to verify that a transaction may begin; see `Log.begin_verification`."""
        return self.leadership.log.begin_verification(producer_id, producer_epoch)

    def wait_durable(
        self, last_offset: int, timeout_s: float | None = None, park: Park = unparked
    ) -> None:
        """Wait until every replica in sync has the messages up to an offset, and has flushed them.

        Args:
            last_offset: of the last message.
            timeout_s: how long it may take; None for no limit.
            park: entered if there is something to wait for.

        Raises:
            NotLeaderForPartition: another broker leads now; whether the messages survive is
                unknown.
            RequestTimedOut: it took longer than the limit.
            StorageError: the disk failed.
        """
        (error,) = wait_for_acks(
            [Unacknowledged(self.leadership, last_offset)],
            -1,
            timeout_s,
            runtime=self.runtime,
            park=park,
        )
        if error is not None:
            raise error

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        """Read to the log's end: a predecessor's writes may be above the high watermark."""
        return self.leadership.read_bytes(offset, max_bytes, reader=ReadEnd.LOG_END)
