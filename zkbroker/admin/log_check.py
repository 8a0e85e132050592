"""Checks and repairs the logs of a stopped broker.

Invariant: `check_logs` changes nothing, and reports what the broker's own recovery would find if it
    verified everything. `repair_logs` does that recovery: it cuts each log to its longest valid
    prefix, keeps the cut bytes in `*.log.corrupt-<ms>`, and rebuilds the indexes.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from zkbroker.admin.legacy07 import check_log07, repair_log07
from zkbroker.admin.log_findings import Finding, LogCheck
from zkbroker.config.log import LogConfig
from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import read_epochs, read_offsets
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.log import is_log_folder
from zkbroker.log.lock import DirectoryLock
from zkbroker.log.names import TopicPartition
from zkbroker.log.producers.state import ProducerState
from zkbroker.log.producers.transactions import TransactionTracker
from zkbroker.log.recovery.loading import LoadPlan, load
from zkbroker.log.recovery.scan import Cut, count_valid_messages, scan_segment
from zkbroker.log.segments.index import OffsetIndex, TimeIndex
from zkbroker.log.segments.transaction_index import AbortedTransaction, read_index
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records import EntryInfo

logger = logging.getLogger(__name__)


def partition_directories(paths: Sequence[Path]) -> list[Path]:
    """Return the partitions' directories among and below the given paths.

    Args:
        paths: data directories or partitions' directories.

    Raises:
        StorageError: a path is neither, or cannot be read.
    """
    found: list[Path] = []
    for given in paths:
        # A partition is known by the name of its directory, and locked by its parent.
        path = given.resolve() if given.name in ("", "..") else given
        if not path.is_dir():
            raise StorageError(f"{path} is not a directory")
        try:
            alone = _holds_log(path) or is_log_folder(path)
            here = [path] if alone else sorted(filter(_is_partition, path.iterdir()))
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        if not here and not (path / names.META_PROPERTIES).exists():
            raise StorageError(
                f"{path} holds no log: give a data directory (log.dirs) or a partition's directory"
            )
        found += here
    return found


def _holds_log(path: Path) -> bool:
    return any(names.offset_of_file(child.name, names.LOG) is not None for child in path.iterdir())


def _is_partition(path: Path) -> bool:
    return path.is_dir() and (is_log_folder(path) or stored_partition(path) is not None)


def stored_partition(directory: Path) -> TopicPartition | None:
    """Return the partition whose log a directory holds; None if it is deleted, or not a partition.

    Raises:
        OSError: the directory cannot be read.
    """
    try:
        found = TopicPartition.parse(directory.name)
    except ValueError:
        return None
    # Directories of other programs have such names too.
    return found if not names.is_delete_directory(directory) and _holds_log(directory) else None


def check_logs(paths: Sequence[Path]) -> Iterator[LogCheck]:
    """Verify every entry, index, snapshot and checkpoint, and change nothing.

    Args:
        paths: data directories or partitions' directories; while a broker runs, the end of a log
            may be half written.

    Raises:
        StorageError: a path is not a directory, or cannot be read.
    """
    for path in paths:
        yield from _check_data_directory(path)
    for directory in partition_directories(paths):
        try:
            yield check_log07(directory) if is_log_folder(directory) else _check_log(directory)
        except OSError as error:
            raise StorageError(f"cannot read {directory}: {error}") from error


def _check_data_directory(path: Path) -> Iterator[LogCheck]:
    check = LogCheck(path)
    for name in (names.RECOVERY_POINTS, names.HIGH_WATERMARKS, names.START_OFFSETS):
        try:
            read_offsets(path / name)
        except StorageError as error:
            check.findings.append(Finding(path / name, 0, str(error)))
    if check.findings:
        yield check


def _check_log(directory: Path) -> LogCheck:
    check = LogCheck(directory)
    bases = _offsets(directory, names.LOG)
    check.segments = len(bases)
    check.log_start_offset = check.log_end_offset = bases[0] if bases else 0
    sparse = bool(_gaps_allowed(directory))
    broken = False
    tracker = TransactionTracker(dict)
    for index, base in enumerate(bases):
        path = directory / names.file_name(base, names.LOG)
        following = bases[index + 1] if index + 1 < len(bases) else None
        if broken:
            check.findings.append(_lost(path, 0, "lies after the damage"))
            continue
        verifier = _IndexVerifier(directory, base, tracker)
        scan = scan_segment(
            path, base, next_base=following, gaps_allowed=sparse, on_entry=verifier.entry
        )
        sparse = sparse or scan.gaps
        check.size_bytes += scan.valid_bytes
        check.entries += verifier.entries
        check.log_end_offset = scan.next_offset
        if scan.reason is not None:
            check.findings.append(_lost(path, scan.valid_bytes, scan.reason))
            broken = following != scan.next_offset
            # The indexes point at bytes that a repair cuts; it rebuilds them.
            continue
        if following is not None and following != scan.next_offset:
            check.holes.append((scan.next_offset, following - 1))
            sparse = True
        check.findings += verifier.findings(
            scan.valid_bytes, scan.next_offset, closed=following is not None
        )
    check.findings += _small_files(directory)
    return check


def _offsets(directory: Path, suffix: str) -> list[int]:
    found = (names.offset_of_file(path.name, suffix) for path in directory.iterdir())
    return sorted(offset for offset in found if offset is not None)


def _gaps_allowed(directory: Path) -> bool | None:
    """Whether a log is compacted; None if only its topic's settings could tell."""
    try:
        return TopicPartition.parse(directory.name).topic in INTERNAL_TOPICS or None
    except ValueError:
        return None


def _lost(path: Path, position: int, reason: str) -> Finding:
    lost = path.stat().st_size - position
    return Finding(path, position, reason, lost, count_valid_messages(path, position))


class _IndexVerifier:
    """Compares a segment's indexes with its entries, one entry at a time."""

    def __init__(self, directory: Path, base: int, tracker: TransactionTracker) -> None:
        fs = FileSystem()
        self.entries = 0
        self._base = base
        self._log_file = directory / names.file_name(base, names.LOG)
        self._transactions_file = directory / names.file_name(base, names.TXNINDEX)
        self._tracker = tracker
        self._aborted: list[AbortedTransaction] = []
        self._offsets_file = directory / names.file_name(base, names.INDEX)
        self._times_file = directory / names.file_name(base, names.TIMEINDEX)
        self._offsets: list[tuple[int, int]] = []
        self._times: list[tuple[int, int]] = []
        self._findings: list[Finding] = []
        self._has_times = False
        try:
            index = OffsetIndex(fs, self._offsets_file, base)
            self._offsets = [(base + offset, position) for offset, position in index.entries()]
            index.close()
            times = TimeIndex(fs, self._times_file, base)
            self._times = [(timestamp, base + offset) for timestamp, offset in times.entries()]
            times.close()
            self._has_times = True
        except FileNotFoundError as error:
            # Genuine brokers before 0.10 have no time index; it is built when needed.
            logger.debug("index missing file=%s", error.filename)
        self._next_offset = 0
        self._next_time = 0
        self._largest = -1

    def entry(self, position: int, info: EntryInfo) -> None:
        """Take the next valid entry."""
        self.entries += 1
        if info.is_transactional:
            aborted = self._tracker.note(info, lambda: self._read(position, info.size))
            if aborted is not None:
                self._aborted.append(aborted)
        self._largest = max(self._largest, info.max_timestamp)
        while self._next_offset < len(self._offsets):
            offset, at = self._offsets[self._next_offset]
            if at > position:
                break
            if at < position or offset < info.base_offset:
                reason = f"entry {self._next_offset} (offset {offset}, position {at}) is wrong"
                self._findings.append(Finding(self._offsets_file, 8 * self._next_offset, reason))
            self._next_offset += 1
        while self._next_time < len(self._times):
            timestamp, offset = self._times[self._next_time]
            if offset > info.last_offset:
                break
            if timestamp != self._largest:
                reason = (
                    f"entry {self._next_time} has {timestamp} up to offset {offset}, "
                    f"the largest timestamp there is {self._largest}"
                )
                self._findings.append(Finding(self._times_file, 12 * self._next_time, reason))
            self._next_time += 1

    def _read(self, position: int, size: int) -> bytes:
        with self._log_file.open("rb") as file:
            file.seek(position)
            return file.read(size)

    def _transactions(self, next_offset: int) -> Iterator[Finding]:
        path = self._transactions_file
        try:
            found = read_index(path, self._base, next_offset)
        except FileNotFoundError:
            found = []
        except CorruptMessage as error:
            yield Finding(path, 0, str(error))
            return
        # A transaction may have begun in a deleted segment, so only markers are compared.
        if [each.last_offset for each in found] != [each.last_offset for each in self._aborted]:
            reason = f"{len(found)} aborted transactions, the log has {len(self._aborted)}"
            yield Finding(path, 0, reason)

    def findings(self, valid_bytes: int, next_offset: int, *, closed: bool) -> list[Finding]:
        """Return the problems of a segment's indexes.

        Args:
            valid_bytes: valid bytes of the segment.
            next_offset: the offset after it.
            closed: whether it is no longer written.
        """
        self._findings += self._transactions(next_offset)
        if closed and self._has_times and not self._times and self._largest > 0:
            self._findings.append(Finding(self._times_file, 0, "is empty"))
        for number, (offset, at) in enumerate(
            self._offsets[self._next_offset :], self._next_offset
        ):
            if at >= valid_bytes:
                reason = f"entry {number} (offset {offset}, position {at}) points beyond the log"
                self._findings.append(Finding(self._offsets_file, 8 * number, reason))
        for number, (timestamp, offset) in enumerate(
            self._times[self._next_time :], self._next_time
        ):
            reason = f"entry {number} ({timestamp}, offset {offset}) points beyond the log"
            self._findings.append(Finding(self._times_file, 12 * number, reason))
        return self._findings


def _small_files(directory: Path) -> Iterator[Finding]:
    for offset in _offsets(directory, names.SNAPSHOT):
        path = directory / names.file_name(offset, names.SNAPSHOT)
        try:
            ProducerState.from_snapshot(path.read_bytes())
        except ValueError as error:
            yield Finding(path, 0, str(error))
    try:
        read_epochs(directory / names.LEADER_EPOCHS)
    except StorageError as error:
        yield Finding(directory / names.LEADER_EPOCHS, 0, str(error))


def repair_logs(paths: Sequence[Path], *, now_ms: int | None = None) -> list[Cut]:
    """Recover every log as after a crash, whatever the recovery points say.

    Args:
        paths: data directories, or partitions' directories in them; no broker may use them.
        now_ms: part of the names of the files for the cut bytes; the time by default.

    Returns:
        The cuts.

    Raises:
        StorageError: a data directory is in use, or cannot be written.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    cuts: list[Cut] = []
    directories = partition_directories(paths)
    try:
        with ExitStack() as locks:
            for root in sorted({directory.parent for directory in directories}):
                locks.callback(DirectoryLock(root).release)
            for directory in directories:
                repair = repair_log07 if is_log_folder(directory) else _repair_log
                cuts += repair(directory, now)
    except OSError as error:
        raise StorageError(f"cannot repair: {error}") from error
    return cuts


def _repair_log(directory: Path, now_ms: int) -> list[Cut]:
    root = directory.parent
    starts: dict[TopicPartition, int] = {}
    try:
        starts = read_offsets(root / names.START_OFFSETS)
    except StorageError as error:
        logger.warning("checkpoint ignored reason=%s", error)
    tp = TopicPartition.parse(directory.name)
    plan = LoadPlan(
        fs=FileSystem(),
        directory=directory,
        clean=False,
        recovery_point=0,
        log_start_offset=starts.get(tp, 0),
        index_interval_bytes=LogConfig().index_interval_bytes,
        gaps_allowed=_gaps_allowed(directory),
        now_ms=lambda: now_ms,
    )
    _, cuts = load(plan)
    return cuts
