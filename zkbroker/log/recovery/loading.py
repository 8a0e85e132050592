"""Opens the directory of a partition.

    leftovers (.deleted, .cleaned, .swap, *.tmp) -> segments -> recovery -> producers -> LogState

Invariant: above the recovery point, an opened log holds exactly the longest valid prefix of the
stored bytes, whatever a crash left. After a clean shutdown no message is read: only names and
sizes, and the headers after the last entry of the last index.
"""

import dataclasses
import logging
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zkbroker.config.legacy07 import how_to_serve
from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.epochs import LeaderEpochs
from zkbroker.log.fs import FileSystem
from zkbroker.log.producers.loading import (
    load_producers,
    load_transactions,
    open_before,
)
from zkbroker.log.producers.state import drop_snapshots
from zkbroker.log.producers.transactions import TransactionTracker
from zkbroker.log.recovery.scan import Cut, cut, scan_segment
from zkbroker.log.results import LogState
from zkbroker.log.segments.entries import walk
from zkbroker.log.segments.index import OffsetIndex
from zkbroker.log.segments.indexing import Indexer, new_indexes
from zkbroker.log.segments.replacement import finish_replacement
from zkbroker.log.segments.segment import Segment
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.records import EntryInfo

logger = logging.getLogger(__name__)

ANYWHERE: Final = 2**63 - 1
"""Any part of the log may have been compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Instructions for opening a partition's directory.

    Args:
        fs: the file system.
        directory: of the partition.
        clean: the broker stopped cleanly, so nothing has to be verified.
        recovery_point: offset below which everything is on stable storage.
        log_start_offset: from the checkpoint, 0 if it has none.
        index_interval_bytes: bytes of log between two index entries.
        gaps_allowed: whether the topic is compacted; None if that is unknown: then a gap between
            two whole segments is left alone.
        compacted_below: before a segment that begins at or below this offset there may be a gap;
            later segments were never compacted.
        now_ms: the clock.
    """

    fs: FileSystem
    directory: Path
    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    index_interval_bytes: int = 4096
    gaps_allowed: bool | None = False
    compacted_below: int = ANYWHERE
    now_ms: Callable[[], int]


def load(plan: LoadPlan) -> tuple[LogState, list[Cut]]:
    """Open a partition's directory; may run in any thread, and leaves no file open.

    Raises:
        OSError: the disk failed.
    """
    fs, directory = plan.fs, plan.directory
    fs.mkdir(directory)
    finish_replacement(fs, directory)
    found, indexed = _segments(plan)
    segments = _drop_below_start(plan, found)
    cuts: list[Cut] = []
    led: list[tuple[int, int]] = []
    if not segments:
        segments = [_segment(plan, plan.log_start_offset, 0)]
        recovered, end = 0, plan.log_start_offset
    else:
        recovered, end = _recover(plan, segments, cuts, led)
        trusted = segments[: len(segments) - recovered]
        after = segments[len(trusted)].base_offset if recovered else end
        load_transactions(directory, trusted, after, indexed)
    if not plan.clean:
        # The messages before a snapshot may have been cut off.
        drop_snapshots(fs, directory, above=end)
    epochs = LeaderEpochs(fs, directory)
    # An epoch may begin at the end, before anything is appended under it.
    epochs.truncate_to(end + 1)
    for epoch, start in led:
        # The file may be older than the batches, or torn.
        if epoch > epochs.latest and start < end:
            epochs.assign(epoch, start)
    start = max(segments[0].base_offset, min(plan.log_start_offset, end))
    state = LogState(
        segments=segments,
        log_start_offset=start,
        log_end_offset=end,
        # Verified bytes are not necessarily on stable storage, except below the old recovery point.
        recovery_point=end if plan.clean else min(plan.recovery_point, end),
        producers=load_producers(directory, segments, end, clean=plan.clean),
        epochs=epochs,
    )
    if recovered:
        logger.info(
            "log recovered directory=%s segments=%d log_end_offset=%d", directory, recovered, end
        )
    return state, cuts


def _segment(plan: LoadPlan, base_offset: int, size: int) -> Segment:
    segment = Segment(
        plan.fs, plan.directory, base_offset, index_interval_bytes=plan.index_interval_bytes
    )
    segment.size = size
    return segment


def _segments(plan: LoadPlan) -> tuple[list[Segment], set[int]]:
    """Return the segments, and the base offsets of those that have a transaction index."""
    found: list[Segment] = []
    indexes: list[tuple[int, Path]] = []
    with os.scandir(plan.directory) as listing:
        for item in listing:
            if not item.is_file():
                # Genuine brokers also ignore it.
                logger.warning("not a file, ignored path=%s", item.path)
                continue
            if names.offset_of_file(item.name, names.KAFKA_07) is not None:
                raise StorageError(
                    f"{item.path} is a log of Kafka 0.7, whose offsets are positions in bytes: it "
                    f"cannot lie in log.dirs; {how_to_serve(plan.directory.parent)}"
                )
            base = names.offset_of_file(item.name, names.LOG)
            if base is not None:
                found.append(_segment(plan, base, item.stat().st_size))
                continue
            for suffix in names.INDEX_SUFFIXES:
                base = names.offset_of_file(item.name, suffix)
                if base is not None:
                    indexes.append((base, Path(item.path)))
            if item.name.endswith((names.DELETED, names.CLEANED, names.SWAP, ".tmp")):
                plan.fs.unlink(Path(item.path))
    bases = {segment.base_offset for segment in found}
    for base, path in indexes:
        if base not in bases:
            plan.fs.unlink(path)
    indexed = {base for base, path in indexes if path.suffix == names.TXNINDEX}
    return sorted(found, key=lambda segment: segment.base_offset), indexed


def _drop_below_start(plan: LoadPlan, segments: list[Segment]) -> list[Segment]:
    """Remove deleted segments that a power cut brought back."""
    while len(segments) > 1 and segments[1].base_offset <= plan.log_start_offset:
        segments[0].unlink()
        segments = segments[1:]
    return segments


def _recover(
    plan: LoadPlan, segments: list[Segment], cuts: list[Cut], led: list[tuple[int, int]]
) -> tuple[int, int]:
    """Verify and cut the log above the recovery point; returns segments read, and the log's end.

    The cuts are appended to `cuts`, the leader epochs of batches and their start offsets to `led`.
    """
    first = len(segments) - 1
    if plan.clean:
        try:
            return 0, _end_of_segment(segments[-1])
        except CorruptMessage as error:
            logger.warning("log not clean directory=%s reason=%s", plan.directory, error)
    else:
        while first > 0 and segments[first].base_offset > plan.recovery_point:
            first -= 1
    end, sparse = segments[first].base_offset, bool(plan.gaps_allowed)
    before, start = segments[:first], end
    tracker = TransactionTracker(
        lambda: open_before(plan.directory, before, start) if before else {}
    )
    for index in range(first, len(segments)):
        segment = segments[index]
        later = segments[index + 1 :]
        path = segment.path(names.LOG)
        with new_indexes(segment) as indexer:
            found = _Findings(segment, indexer, tracker, led)
            scan = scan_segment(
                path,
                segment.base_offset,
                next_base=later[0].base_offset if later else None,
                gaps_allowed=sparse,
                on_entry=found.add,
            )
            indexer.finish()
        end = scan.next_offset
        segment.size = scan.valid_bytes
        segment.set_aborted(found.aborted)
        sparse = sparse or scan.gaps
        # The offsets of a segment reach to the start of the next one. If some are missing at its
        # end, a compaction removed them, which only touches segments on stable storage.
        hollow = sparse and later and later[0].base_offset <= plan.compacted_below
        if scan.reason is None and later and not hollow and end != later[0].base_offset:
            missing = f"offsets {end} to {later[0].base_offset - 1} are missing"
            if plan.gaps_allowed is None:
                logger.warning("gap kept file=%s reason=%s", path, missing)
                sparse = True
            else:
                scan = dataclasses.replace(scan, reason=missing)
        if scan.reason is None:
            continue
        if later and end == later[0].base_offset:
            # Junk after the last message; the next segment continues from that message.
            cuts += cut(plan.fs, path, scan, plan.now_ms(), later=[])
            continue
        paths = [each.path(names.LOG) for each in later]
        cuts += cut(plan.fs, path, scan, plan.now_ms(), later=paths)
        for each in later:
            each.unlink(names.INDEX_SUFFIXES)
        del segments[index + 1 :]
        return index + 1 - first, end
    return len(segments) - first, end


@dataclass(slots=True)
class _Findings:
    """What a log keeps of a segment's valid entries besides their bytes."""

    segment: Segment
    indexer: Indexer
    tracker: TransactionTracker
    led: list[tuple[int, int]]
    aborted: list[AbortedTransaction] = field(default_factory=list)

    def add(self, position: int, info: EntryInfo) -> None:
        """Add a valid entry."""
        if position == 0:
            self.segment.first_timestamp = info.base_timestamp
        self.indexer.add(position, info)
        epoch = info.partition_leader_epoch
        if info.magic == 2 and epoch > (self.led[-1][0] if self.led else -1):
            self.led.append((epoch, info.base_offset))
        if info.is_transactional:
            aborted = self.tracker.note(info, lambda: self._read(position, info.size))
            if aborted is not None:
                self.aborted.append(aborted)

    def _read(self, position: int, size: int) -> bytes:
        with self.segment.path(names.LOG).open("rb") as file:
            file.seek(position)
            return file.read(size)


def _end_of_segment(segment: Segment) -> int:
    """Return the offset after a segment, reading only from its last index entry on.

    Raises:
        CorruptMessage: it does not end with a whole entry.
    """
    if segment.size == 0:
        return segment.base_offset
    position = 0
    try:
        with closing(segment.open_index(OffsetIndex)) as index:
            if index.last_entry is not None and 0 < index.last_entry[1] < segment.size:
                position = index.last_entry[1]
    except FileNotFoundError:
        pass
    with segment.path(names.LOG).open("rb", buffering=0) as file:
        end, next_offset = position, segment.base_offset
        for at, info in walk(file.fileno(), position, segment.size):
            if info.last_offset < next_offset:
                raise CorruptMessage(f"offset {info.last_offset} goes back at position {at}")
            end, next_offset = at + info.size, info.last_offset + 1
        if end != segment.size:
            raise CorruptMessage(f"a torn entry at position {end}")
        return next_offset
