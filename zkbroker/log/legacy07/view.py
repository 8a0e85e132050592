"""A 0.7 log that shows a newer log, the master, to clients of 0.7: real bytes, and a map.

    master (high watermark, last stable offset)
      -> stretches: as a 0.7 producer sent them here, else rendered
      -> files of the view, not visible yet
      -> flush: the master up to there, the map, the files; then readers see them

Invariants: a position that a reader has seen keeps its bytes and its offset for ever: the map is on
stable storage before the bytes are visible, and the master before the map. Bytes that a crash
leaves beyond the map were never visible: they are cut off and rendered again. Stretches follow the
master's order. If the master was truncated below the shown offsets (an unclean election, a lost
flush), the shown messages stay, and the master's new ones follow them.
"""

import itertools
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from zkbroker.config.legacy07 import Log07Settings
from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.log import Legacy07Log
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.offset_map import CUT, MapFile, MapHead, MapRecord, map_of
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.log.legacy07.sent_sets import SentSets
from zkbroker.records.generations import AS_SENT, Stretch07, dense, render
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

STRETCH_BYTES: Final = 64 * 1024
"""Payload bytes after which a stretch ends; this limits how far a look-up walks."""
_RENDERED_AT_ONCE: Final = 256
_FAIR_BYTES: Final = 1024 * 1024


class _MasterCutError(StorageError):
    """Rendered but unflushed messages are no longer in the master, and were dropped."""


class ViewProgress(NamedTuple):
    """How far a view shows its master: the next offset, and the last shown message's epoch."""

    offset: int
    epoch: int


class OpenedView(NamedTuple):
    """The files of a view.

    Args:
        partition: of the master.
        segments: its files in order, at least one; each has its map beside it.
        starts: for each segment, the master's offset where it begins.
        place: how far it shows the master.
    """

    partition: int
    segments: list[Segment07]
    starts: Sequence[int]
    place: ViewProgress


class View07(Legacy07Log):
    """The view of one partition.

    Args:
        fs: the file system.
        directory: its folder.
        opened: its files.
        settings: of a 0.7 log.
        runtime: runs the calls that wait for the disk.
        now_ms: wall clock in milliseconds.
        kind: `PLAIN_0` or `PLAIN_1`, for rendered messages.
        pending_bytes: how many bytes of 0.7 producers' sets to keep until the master's high
            watermark has passed them; further sets are rendered from the master.

    Raises:
        OSError: a file cannot be opened.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        opened: OpenedView,
        settings: Log07Settings,
        runtime: Runtime,
        now_ms: Callable[[], int],
        *,
        kind: int,
        pending_bytes: int,
    ) -> None:
        super().__init__(fs, directory, opened.segments, settings, runtime, now_ms)
        self.partition = opened.partition
        self.master: LogMaster | None = None
        """None while this broker has no replica of the partition."""
        self._kind = kind
        starts = (each.start for each in opened.segments)
        self._starts = dict(zip(starts, opened.starts, strict=True))
        self._place = self._saved_place = opened.place
        self._unsaved: list[MapRecord] = []
        self._map = MapFile(fs, self._active.path)
        self._following = runtime.lock()
        self._sent = SentSets(pending_bytes)
        self._truncations = -1
        self._barriers: dict[int, int] = {}
        self._barrier_ids = itertools.count()

    @property
    def next_offset(self) -> int:
        """The master's offset to be shown next."""
        return self._place.offset

    @property
    def behind(self) -> bool:
        """Whether the master has messages that are not shown yet."""
        return self.master is not None and self._place.offset < self.master.end

    def attach(self, master: LogMaster | None) -> None:
        """Show this master from now on; None if this broker has no replica any more."""
        self.master = master
        self._truncations = -1

    # -- sets of 0.7 producers

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Show no new messages of the master within this block: it appends a set and notes it."""
        master = self.master
        key = next(self._barrier_ids)
        self._barriers[key] = 0 if master is None else master.written_end
        try:
            yield
        finally:
            del self._barriers[key]

    def note_sent(self, offset: int, stretches: Sequence[Stretch07], term: tuple[int, int]) -> None:
        """Keep the set of a 0.7 producer, to show it as it was sent; within `appending`.

        Args:
            offset: of its first message in the master.
            stretches: all of it.
            term: of the master before it was appended.
        """
        self._sent.add(offset, stretches, term)

    # -- following the master

    def catch_up(self) -> None:
        """Show the master's new messages; readers see them after the next flush.

        Raises:
            StorageError: a disk failed.
            ProtocolError: the master is damaged.
        """
        master = self.master
        if master is None:
            return
        with self._following:
            more = True
            fair_at = self.end + _FAIR_BYTES
            while more:
                self._align(master)
                try:
                    more = self._step(master)
                except _MasterCutError as error:
                    logger.info("0.7 view goes back: %s", error)
                if self.end >= fair_at:
                    self._runtime.sleep(0)
                    fair_at = self.end + _FAIR_BYTES

    def _step(self, master: LogMaster) -> bool:
        """Show some messages; False when there are no more."""
        end = min([master.end, *self._barriers.values()])
        at = max(self._place.offset, master.start)
        if at >= end:
            return False
        sent = self._sent.first(at, master.term)
        if sent is not None and sent.offset == at and sent.offset + sent.count <= end:
            self._sent.drop_first()
            offset = at
            for stretch in sent.stretches:
                self._show(stretch, offset, master)
                offset += stretch.messages
            return offset < end
        end = end if sent is None else min(end, sent.offset)
        found = master.read(at, end)
        if sent is not None and found.next_offset <= at and end == sent.offset:
            # The messages before the set were compacted away; a set begins where an entry begins.
            found = found._replace(next_offset=end)
        for stretch, offset in self._rendered(found.offsets, found.values):
            self._show(stretch, offset, master)
        if found.next_offset <= at:
            return False
        if found.next_offset > self._place.offset:
            # Skip markers, aborted messages and compacted offsets.
            epoch = master.epoch_of(found.next_offset - 1)
            self._place = ViewProgress(found.next_offset, epoch)
        return True

    def _rendered(
        self, offsets: Sequence[int], values: Sequence[bytes | None]
    ) -> Iterator[tuple[Stretch07, int]]:
        for begin, end in dense(offsets):
            while begin < end:
                upto, size = begin, 0
                while upto < end and size < STRETCH_BYTES and upto - begin < _RENDERED_AT_ONCE:
                    size += len(values[upto] or b"")
                    upto += 1
                data = render(values[begin:upto], self._kind)
                yield Stretch07(self._kind, data, upto - begin), offsets[begin]
                begin = upto

    def _show(self, stretch: Stretch07, offset: int, master: LogMaster) -> None:
        behind = offset + stretch.messages
        # The epoch of the last message: a stretch may span epochs.
        epoch = master.epoch_of(behind - 1)
        with self._lock:
            self._require_working()
            data = stretch.data
            position = self._write(data)
            self._unsaved.append(
                MapRecord(
                    stretch.kind,
                    position,
                    len(data),
                    offset,
                    stretch.messages,
                    zlib.crc32(data),
                    epoch,
                    bytes(data) if stretch.kind == AS_SENT else b"",
                )
            )
            self._place = ViewProgress(behind, epoch)
            self._count(stretch.messages)

    def _align(self, master: LogMaster) -> None:
        """Go back to where the master was truncated, if that is below the shown offsets."""
        # The flush handles a later truncation.
        if master.truncations == self._truncations:
            return
        with self._lock:
            self._require_working()
            self._truncations = master.truncations
            cut = master.take_lowest_cut()
            if min(cut, _held(master, self._place)) >= self._place.offset:
                return
            self._drop_unflushed()
            offset = min(cut, _held(master, self._saved_place))
            if offset < self._saved_place.offset:
                epoch = master.epoch_of(offset - 1)
                logger.error(
                    "the master of a 0.7 view was truncated directory=%s offset=%d shown=%d: "
                    "messages that 0.7 readers saw stay, and the master's new ones follow",
                    self.directory,
                    offset,
                    self._saved_place.offset,
                )
                self._save([MapRecord(CUT, self.end, 0, offset, 0, 0, epoch)])
                self._place = self._saved_place = ViewProgress(offset, epoch)

    def _drop_unflushed(self) -> None:
        active = self._active
        fd = active.hold()
        try:
            self._fs.truncate(fd, active.flushed)
        except OSError as error:
            raise StorageError(f"{active.path} cannot be cut: {error}") from error
        finally:
            active.release()
        active.size = active.flushed
        self._unsaved.clear()
        self._unflushed = 0
        self._place = self._saved_place

    # -- differences from a log of its own

    def append(self, data: bytes | memoryview, messages: int) -> int:
        """Refuse an append: a view shows its master and nothing else.

        Raises:
            StorageError: always.
        """
        raise StorageError(f"{self.directory} is a view: append to its master")

    def flush(self) -> None:
        """Make shown messages visible; if the master was truncated meanwhile, show them again.

        Raises:
            StorageError: a disk failed.
        """
        try:
            super().flush()
        except _MasterCutError as error:
            logger.info("0.7 view goes back: %s", error)

    def delete_expired(self) -> int:
        """Delete the oldest files that exceed a limit, or of which the master has nothing left.

        Raises:
            StorageError: the disk failed.
        """
        # Messages that cannot be flushed are dropped before the deletion, not during it.
        self.flush()
        return super().delete_expired()

    def _flush(self) -> None:
        if self._unsaved:
            master = self.master
            # The master first: the map must never be ahead of it.
            if master is not None:
                master.flush(self._place.offset)
            if master is None or master.truncations != self._truncations:
                # The dropped messages were never visible, and are shown again.
                self._drop_unflushed()
                raise _MasterCutError(f"the master of {self.directory} was truncated, or is gone")
            self._save(self._unsaved)
            self._unsaved = []
            self._saved_place = self._place
        super()._flush()

    def _save(self, records: Sequence[MapRecord]) -> None:
        try:
            self._runtime.offload(self._map.append, records)
        except OSError as error:
            self._failure = f"the map of {self._active.path} could not be written: {error}"
            logger.exception("0.7 view failed directory=%s", self.directory)
            raise StorageError(self._failure) from error

    def _create_companion(self, segment: Segment07) -> None:
        head = MapHead(self.partition, segment.start, *self._saved_place)
        self._runtime.offload(self._map.begin, segment.path, head)
        self._starts[segment.start] = head.offset

    def _unlink(self, segment: Segment07) -> None:
        # The map first: recovery takes a file without a map for one that was being deleted.
        with suppress(FileNotFoundError):
            # An earlier deletion may have failed after it.
            self._fs.unlink(map_of(segment.path))
        super()._unlink(segment)
        del self._starts[segment.start]

    def _expired(self) -> int:
        """Include files of which the master has nothing left."""
        count = super()._expired()
        if self.master is None:
            return count
        start = self.master.start
        gone = 0
        for following in self._segments[1:]:
            if self._starts[following.start] > start:
                break
            gone += 1
        if gone == len(self._segments) - 1 and self._saved_place.offset <= start:
            gone += 1
        return max(count, gone)

    def close(self) -> None:
        """Flush and close; messages that the master cannot flush are shown again after a restart.

        Raises:
            StorageError: the disk failed.
        """
        if self._closed:
            return
        try:
            if not self.failed and self.master is None:
                self._drop_unflushed()
            elif not self.failed:
                self.flush()
        finally:
            try:
                super().close()
            finally:
                self._map.close()


def _held(master: LogMaster, place: ViewProgress) -> int:
    """Return up to which offset the master still has the messages shown before a place."""
    ends = [master.written_end, place.offset]
    end = master.end_of(place.epoch)
    if end is not None:
        ends.append(end)
    return min(ends)
