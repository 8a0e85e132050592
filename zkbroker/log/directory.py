"""One data directory: its lock and health, `meta.properties`, checkpoints, the clean-stop marker.

Invariant: from `open` to `close` the directory is locked. The removal of the clean-shutdown marker
is on stable storage before anything is appended; the marker is written only after everything else
was closed without an error. The first disk error takes the directory offline for good: writes since
the last successful fsync may be lost, and an fsync that failed once and then succeeds has saved
nothing. The other directories go on.
"""

import contextlib
import errno
import logging
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import checkpoints, names
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.fs import FileSystem
from zkbroker.log.lock import DirectoryLock
from zkbroker.log.names import TopicPartition
from zkbroker.log.segments.open_files import OpenFiles
from zkbroker.measures import Histogram
from zkbroker.private_files import warn_of_wide_rights
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Errors of a process that has no file descriptor left, which are no failure of the disk."""


class DataDirectory:
    """A data directory of the broker; it knows its logs only by their partitions."""

    def __init__(
        self,
        root: Path,
        runtime: Runtime,
        fs: FileSystem,
        now_ms: Callable[[], int],
        open_files: OpenFiles,
        on_offline: Callable[["DataDirectory"], None],
    ) -> None:
        """Make the object; `open` locks it. `on_offline` is called once, when it fails."""
        self.root = root
        self.runtime = runtime
        self.fs = fs
        self.now_ms = now_ms
        self.open_files = open_files
        self._on_offline = on_offline
        self.offline: str | None = None
        """Why the directory cannot be used; None if it can."""
        self.flush_times = Histogram()
        """Durations of its logs' flushes."""
        self.meta = MetaProperties(None, None)
        self.clean = False
        """Whether the last broker stopped cleanly."""
        self.loaded = False
        """Whether all logs in it are known."""
        self.recovery_points: Offsets = {}
        self.start_offsets: Offsets = {}
        self.high_watermarks: Offsets = {}
        """The offsets in the checkpoints."""
        self.cleaned: Offsets = {}
        """The end of the compacted part, for each log that was ever compacted."""
        self._discarded: list[tuple[int, Path]] = []
        self._writing = runtime.lock()
        self._lock: DirectoryLock | None = None

    # Health

    def fail(self, error: OSError, *, half_done: bool = False) -> StorageError:
        """Take the directory offline and return the error to raise.

        A process without free file descriptors, or a single missing file, is no failure of the
        disk: the call fails, and the directory stays online.

        Args:
            error: of the system call.
            half_done: only a restart can finish the operation, whatever the error was.
        """
        harmless = error.errno in NO_DESCRIPTORS
        if not half_done and (harmless or (error.errno == errno.ENOENT and self.root.is_dir())):
            return self.error(str(error))
        if self.offline is None:
            self.offline = f"{error.strerror or error} ({error.filename or self.root})"
            logger.error("data directory offline path=%s reason=%s", self.root, self.offline)
            self._on_offline(self)
        return self.error(self.offline)

    @contextmanager
    def storage(self, *, half_done: bool = False) -> Iterator[None]:
        """Pass an OSError of the block to `fail`, and raise its StorageError."""
        try:
            yield
        except OSError as error:
            raise self.fail(error, half_done=half_done) from error

    def error(self, reason: str) -> StorageError:
        """Return an error that names the directory."""
        return StorageError(f"data directory {self.root} cannot be used: {reason}")

    # Start and end

    def open(self) -> None:
        """Lock the directory and read the files beside the partitions.

        Raises:
            StorageError: another process uses it. A disk error takes it offline instead.
        """
        try:
            self._make(self.root)
            self._lock = DirectoryLock(self.root)
            warn_of_wide_rights(self.root)
            self.meta = checkpoints.read_meta(self.root)
            self.clean = (self.root / names.CLEAN_SHUTDOWN).exists()
            self.recovery_points = self._read(names.RECOVERY_POINTS)
            self.start_offsets = self._read(names.START_OFFSETS)
            self.high_watermarks = self._read(names.HIGH_WATERMARKS)
            self.cleaned = self._read(names.CLEANED_OFFSETS)
        except OSError as error:
            self.fail(error)

    def _make(self, path: Path) -> None:
        if not path.exists():
            self._make(path.parent)
            self.fs.mkdir(path)
            self.fs.fsync_dir(path.parent)

    def _read(self, name: str) -> Offsets:
        try:
            return checkpoints.read_offsets(self.root / name)
        except StorageError as error:
            # Without it more is verified than needed, and deleted messages reappear: both are safe.
            logger.warning("checkpoint ignored reason=%s", error)
            self.clean = False
            return {}

    def partitions(self) -> list[tuple[TopicPartition, Path]]:
        """Return the partitions that have a directory here; remove the deleted ones.

        Raises:
            OSError: the disk failed.
        """
        found: list[tuple[TopicPartition, Path]] = []
        for path in sorted(self.root.iterdir()):
            if not path.is_dir():
                continue
            if names.is_delete_directory(path):
                self.fs.remove_tree(path)
                continue
            try:
                found.append((TopicPartition.parse(path.name), path))
            except ValueError:
                logger.warning("directory ignored path=%s", path)
        return found

    def begin(self) -> None:
        """Remove the clean-shutdown marker durably; to be called before the first append."""
        try:
            if self.clean:
                self.fs.unlink(self.root / names.CLEAN_SHUTDOWN)
            self.fs.fsync_dir(self.root)
        except OSError as error:
            self.fail(error)

    def write_meta(self, meta: MetaProperties) -> None:
        """Write the ids of the broker and the cluster."""
        if self.offline is None and meta != self.meta:
            try:
                checkpoints.write_meta(self.fs, self.root, meta)
                self.meta = meta
            except OSError as error:
                self.fail(error)

    def mark_clean(self) -> None:
        """Write the clean-shutdown marker."""
        if self.offline is None:
            try:
                self.fs.write_file(self.root / names.CLEAN_SHUTDOWN, b"")
            except OSError as error:
                self.fail(error)

    def close(self) -> None:
        """Unlock the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Checkpoints; one writer at a time reads the values and writes them, so that none goes back

    def write_checkpoints(self, read: Callable[[], tuple[Offsets, Offsets, Offsets]]) -> None:
        """Replace the recovery points, start offsets and high watermarks, off the event loop.

        Args:
            read: returns them in this order, for every log in here; it must not wait for a log.
        """
        with self._writing:
            points, starts, marks = read()
            starts = {tp: start for tp, start in starts.items() if start > 0}
            if self._try_to_write(names.RECOVERY_POINTS, points):
                self.recovery_points = points
            if self._try_to_write(names.HIGH_WATERMARKS, marks):
                self.high_watermarks = marks
            if self._try_to_write(names.START_OFFSETS, starts):
                self.start_offsets = starts

    def save_high_watermarks(self, read: Callable[[], Offsets]) -> None:
        """Make the high watermarks stable if they changed, off the event loop.

        Args:
            read: returns those of every log in here; it must not wait for a log.
        """
        with self._writing:
            marks = read()
            if marks != self.high_watermarks and self._try_to_write(names.HIGH_WATERMARKS, marks):
                self.high_watermarks = marks

    def save_start_offset(self, tp: TopicPartition, read: Callable[[], int]) -> None:
        """Make the start offset of one log stable, off the event loop.

        Raises:
            StorageError: it could not be written.
        """
        with self._writing:
            starts = self.start_offsets | {tp: read()}
            self._write(names.START_OFFSETS, starts)
            self.start_offsets = starts

    def save_recovery_point(self, tp: TopicPartition, read: Callable[[], int]) -> None:
        """Make the recovery point of one log stable, off the event loop.

        Raises:
            StorageError: it could not be written.
        """
        with self._writing:
            self.recovery_points[tp] = read()
            self._write(names.RECOVERY_POINTS, self.recovery_points)

    def save_cleaned(
        self, tp: TopicPartition, read: Callable[[], int | None], keep: Set[TopicPartition]
    ) -> None:
        """Record up to which offset a log was compacted, off the event loop.

        Args:
            tp: the partition.
            read: returns the offset, or None to record nothing; it must not wait for the log.
            keep: partitions in here; entries of others are dropped.
        """
        with self._writing:
            offset = read()
            if offset is not None:
                kept = {each: at for each, at in self.cleaned.items() if each in keep}
                kept[tp] = offset
                if self._try_to_write(names.CLEANED_OFFSETS, kept):
                    self.cleaned = kept

    def lower_cleaned(self, tp: TopicPartition, offset: int) -> None:
        """Lower the end of a log's compacted part to an offset, off the event loop.

        Raises:
            StorageError: it could not be written.
        """
        with self._writing:
            if self.cleaned.get(tp, -1) > offset:
                self._write(names.CLEANED_OFFSETS, self.cleaned | {tp: offset})
                self.cleaned[tp] = offset

    def forget(self, tp: TopicPartition) -> None:
        """Drop a partition from the checkpoints, so that a later one of its name starts afresh.

        Raises:
            StorageError: the disk failed.
        """
        with self._writing:
            for name, offsets in (
                (names.RECOVERY_POINTS, self.recovery_points),
                (names.HIGH_WATERMARKS, self.high_watermarks),
                (names.START_OFFSETS, self.start_offsets),
                (names.CLEANED_OFFSETS, self.cleaned),
            ):
                if tp in offsets:
                    self._write(name, {each: at for each, at in offsets.items() if each != tp})
                    del offsets[tp]
        if self.offline is not None:
            raise self.error(self.offline)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.offline is None:
            with self.storage():
                self.runtime.offload(
                    checkpoints.write_offsets, self.fs, self.root / name, dict(offsets)
                )

    def _try_to_write(self, name: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """Write what is not needed at once, and is written again; returns whether it was."""
        try:
            self._write(name, offsets)
        except StorageError as error:
            if self.offline is None:
                logger.warning("checkpoint not written name=%s reason=%s", name, error)
            return False
        return True

    # Files to be removed

    def discard(self, path: Path, due_ms: int) -> None:
        """Schedule a file or directory for removal, at a time (ms since 1970) or later."""
        self._discarded.append((due_ms, path))

    def remove_discarded(self, now_ms: int) -> int:
        """Remove the paths that are due, off the event loop; returns how many."""
        removed = 0
        for pair in [pair for pair in self._discarded if pair[0] <= now_ms]:
            try:
                self._discarded.remove(pair)
            except ValueError:
                # Another caller has just removed it.
                continue
            try:
                self.runtime.offload(self._remove, pair[1])
            except OSError as error:
                # The next call tries again, for example when there are free descriptors.
                self._discarded.append(pair)
                self.fail(error)
                break
            removed += 1
        return removed

    def _remove(self, path: Path) -> None:
        if path.is_dir():
            self.fs.remove_tree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                self.fs.unlink(path)


def agree(directories: list[DataDirectory], broker_id: int | None) -> MetaProperties:
    """Return the ids that the directories agree on.

    Args:
        directories: those that could be opened.
        broker_id: as configured; None or negative for the stored id.

    Raises:
        ConfigError: the stored ids contradict each other, or the configuration.
    """
    ids: dict[int, Path] = {}
    clusters: dict[str, Path] = {}
    for directory in directories:
        if directory.meta.broker_id is not None:
            ids[directory.meta.broker_id] = directory.root
        if directory.meta.cluster_id is not None:
            clusters[directory.meta.cluster_id] = directory.root
    if len(ids) > 1 or len(clusters) > 1:
        raise ConfigError(
            f"log.dirs belong to different brokers: broker.id {ids}, cluster.id {clusters} in "
            f"their {names.META_PROPERTIES}"
        )
    stored = next(iter(ids), None)
    if broker_id is not None and broker_id >= 0 and stored is not None and stored != broker_id:
        raise ConfigError(
            f"broker.id={broker_id} does not match broker.id={stored} stored in "
            f"{ids[stored] / names.META_PROPERTIES}: set the stored id, or give other log.dirs"
        )
    return MetaProperties(stored, next(iter(clusters), None))
