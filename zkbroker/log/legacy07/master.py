"""The newer log that a view of 0.7 shows, up to the end that the view may see.

Invariant: messages that are read lie below the high watermark and the last stable offset, and
belong to no aborted transaction. So only an unclean election can remove them.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from zkbroker.log.log import Log
from zkbroker.records import committed_only, decode_lists, offset_after

READ_BYTES = 256 * 1024


class MasterRead(NamedTuple):
    """The result of a read: offsets, payloads, and the offset at which to continue."""

    offsets: list[int]
    values: list[bytes | None]
    next_offset: int


class LogMaster:
    """A view's master in this broker, which may be leader or follower.

    Args:
        log: the partition's log.
        high_watermark: returns the partition's.
        leader_epoch: returns the epoch in which this broker leads or follows.
    """

    def __init__(
        self, log: Log, high_watermark: Callable[[], int], leader_epoch: Callable[[], int]
    ) -> None:
        self._log = log
        self._high_watermark = high_watermark
        self._leader_epoch = leader_epoch

    @property
    def start(self) -> int:
        """First offset in the log."""
        return self._log.log_start_offset

    @property
    def end(self) -> int:
        """Offset after the last visible message."""
        return self._log.last_stable_offset(self._high_watermark())

    @property
    def written_end(self) -> int:
        """Offset after the last message, visible or not."""
        return self._log.log_end_offset

    @property
    def truncations(self) -> int:
        """How often it was truncated."""
        return self._log.truncations

    @property
    def term(self) -> tuple[int, int]:
        """A value that changes whenever appends, here or at the leader, may have been truncated."""
        return self._leader_epoch(), self._log.truncations

    def take_lowest_cut(self) -> int:
        """Return the lowest offset of a truncation since the last call, 2**63 - 1 for none.

        It is needed for messages that carry no leader epoch, and is only kept in memory.
        """
        lowest, self._log.lowest_cut = self._log.lowest_cut, 2**63 - 1
        return lowest

    def read(self, offset: int, end: int) -> MasterRead:
        """Read some messages from an offset on, only those below `end`.

        Raises:
            StorageError: the disk failed.
            ProtocolError: the log is damaged there, or begins after the offset.
        """
        log = self._log
        found = log.read(offset, READ_BYTES, end=end)
        if found.slice is None:
            return MasterRead([], [], offset)
        try:
            aborted = log.aborted_transactions(offset, found)
            with log.directory.storage():
                data = os.pread(found.slice.fd, found.slice.size, found.slice.position)
        finally:
            found.slice.close()
        lists = decode_lists(
            committed_only(data, [(each.producer_id, each.first_offset) for each in aborted]),
            start_offset=offset,
        )
        if lists.error is not None:
            raise lists.error
        behind = lists.next_offset
        if aborted:
            # Their messages, which `lists` does not have, are passed as well.
            behind = max(offset, offset_after(data) or offset)
        return MasterRead(lists.offsets, lists.values, behind)

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch under which an offset was appended, -1 if unknown."""
        epochs = reversed(self._log.epochs.all())
        return next((epoch for epoch, start in epochs if start <= offset), -1)

    def end_of(self, epoch: int) -> int | None:
        """Return where an epoch ends in this log, None if that is unknown."""
        if epoch < 0 or epoch > self._log.epochs.latest:
            return None
        return self._log.end_offset_for_epoch(epoch)[1]

    def flush(self, end: int) -> None:
        """Bring messages before an offset to stable storage.

        Raises:
            StorageError: the disk failed.
        """
        if self._log.recovery_point < end:
            self._log.flush()
