"""Producers and transactions of a log that is being opened.

Invariant: the log decides: a snapshot only saves reading the messages before it, and a transaction
index only saves reading its segment.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from zkbroker.errors import CorruptMessage
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.producers.state import ProducerState, snapshots
from zkbroker.log.producers.transactions import OpenTransaction, TransactionTracker
from zkbroker.log.segments.entries import walk
from zkbroker.log.segments.index import OffsetIndex
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction, read_index
from zkbroker.records import EntryInfo, Marker, read_marker

logger = logging.getLogger(__name__)

_RECENT_BYTES = 1 << 20
_END = 2**63 - 1


def load_producers(
    directory: Path, segments: list[Segment], end: int, *, clean: bool
) -> ProducerState:
    """Return the state of the producers at the end of a log; `clean`: the broker stopped cleanly.

    Raises:
        OSError: the disk failed.
    """
    if clean and not snapshots(directory):
        # A clean stop with idempotent producers would have left a snapshot.
        return ProducerState()
    state, start = _producers_before(directory, segments, end)
    if len(state) and start == end:
        # The snapshot has one batch of each producer; the end of the log has the ones before it.
        recent = ProducerState()
        for segment in segments[-2:]:
            position = _position_before(segment, segment.size - _RECENT_BYTES)
            for info, marker in _batches(segment, position):
                recent.update(info, marker)
        state.recall(recent)
    return state


def _producers_before(
    directory: Path, segments: list[Segment], end: int
) -> tuple[ProducerState, int]:
    """Return the state before an offset, and the first offset that was read for it."""
    state, start = ProducerState(), segments[0].base_offset
    for offset in reversed(snapshots(directory)):
        known = _read_snapshot(directory, offset) if offset <= end else None
        if known is not None:
            state, start = known, max(start, offset)
            break
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else end
        if following > start and segment.base_offset < end:
            for info, marker in _batches(segment, 0):
                if start <= info.base_offset < end:
                    state.update(info, marker)
    return state, start


def open_before(directory: Path, segments: list[Segment], end: int) -> dict[int, int]:
    """Return producer id → first offset of the transactions that are open before an offset.

    Raises:
        OSError: the disk failed.
    """
    state, _ = _producers_before(directory, segments, end)
    return {each.producer_id: each.first_offset for each in state.open_transactions()}


def find_open_transactions(directory: Path) -> list[OpenTransaction]:
    """Return the open transactions of a log that is not in use; nothing is changed.

    Raises:
        OSError: it cannot be read.
    """
    return _producers_at_end(directory).open_transactions()


def highest_producer_id(directory: Path) -> int:
    """Return the highest producer id in a log that is not in use, -1 for none.

    Raises:
        OSError: it cannot be read.
    """
    known = set(_producers_at_end(directory).producer_ids())
    for offset in snapshots(directory):
        snapshot = _read_snapshot(directory, offset)
        if snapshot is not None:
            known.update(snapshot.producer_ids())
    return max(known, default=-1)


def _read_snapshot(directory: Path, offset: int) -> ProducerState | None:
    path = directory / names.file_name(offset, names.SNAPSHOT)
    try:
        return ProducerState.from_snapshot(path.read_bytes())
    except ValueError as error:
        logger.warning("snapshot ignored file=%s reason=%s", path, error)
        return None


def _producers_at_end(directory: Path) -> ProducerState:
    segments = []
    for path in directory.iterdir():
        base = names.offset_of_file(path.name, names.LOG)
        if base is not None:
            segment = Segment(FileSystem(), directory, base, index_interval_bytes=4096)
            segment.size = path.stat().st_size
            segments.append(segment)
    if not segments:
        return ProducerState()
    segments.sort(key=lambda each: each.base_offset)
    return _producers_before(directory, segments, _END)[0]


def load_transactions(
    directory: Path, segments: list[Segment], end: int, indexed: set[int]
) -> None:
    """Read the transaction indexes of segments that were not recovered.

    An index that does not match its segment is rebuilt.

    Args:
        directory: of the partition.
        segments: of the log, up to the last one that was not recovered.
        end: the offset after them.
        indexed: base offsets of the segments that have an index.

    Raises:
        OSError: the disk failed.
    """
    for number, segment in enumerate(segments):
        if segment.base_offset not in indexed:
            continue
        path = segment.path(names.TXNINDEX)
        following = segments[number + 1].base_offset if number + 1 < len(segments) else end
        try:
            segment.aborted = read_index(path, segment.base_offset, following)
        except CorruptMessage as error:
            logger.warning("index rebuilt file=%s reason=%s", path, error)
            before = segment.base_offset
            tracker = TransactionTracker(lambda: open_before(directory, segments, before))  # noqa: B023 - called in this round
            segment.set_aborted(_aborted_in(segment, tracker))


def _aborted_in(segment: Segment, tracker: TransactionTracker) -> Iterator[AbortedTransaction]:
    with _log_file(segment) as fd:
        for position, info in walk(fd, 0, segment.size):
            found = tracker.note(info, lambda: os.pread(fd, info.size, position))  # noqa: B023 - called at once
            if found is not None:
                yield found


def _batches(segment: Segment, position: int) -> Iterator[tuple[EntryInfo, Marker | None]]:
    """Yield the batches of idempotent producers after a position of a segment.

    Each comes with its marker, or None if it is no marker.
    """
    if segment.size == 0:
        return
    with _log_file(segment) as fd:
        for at, info in walk(fd, position, segment.size):
            if info.magic == 2 and info.producer_id >= 0:
                marker = read_marker(os.pread(fd, info.size, at)) if info.is_control else None
                yield info, marker


@contextmanager
def _log_file(segment: Segment) -> Iterator[int]:
    """Open a segment's log file; a damaged entry ends the block."""
    with segment.path(names.LOG).open("rb", buffering=0) as file:
        try:
            yield file.fileno()
        except CorruptMessage as error:
            logger.warning("log damaged file=%s reason=%s", segment.path(names.LOG), error)


def _position_before(segment: Segment, position: int) -> int:
    """Return the start of an indexed entry at or before a position of a segment."""
    if position <= 0:
        return 0
    try:
        with closing(segment.open_index(OffsetIndex)) as index:
            found = index.position_before(position)
    except FileNotFoundError:
        return 0
    return found if 0 <= found <= position else 0
