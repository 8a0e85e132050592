"""One data directory: lock, `meta.properties`, checkpoints, the clean-shutdown marker.

Invariant: from `open` to `close` the directory is locked. The clean-shutdown marker is gone, and
that is on stable storage, before anything is appended; it is written only after everything else
was closed without an error.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import checkpoints, names
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.context import LogContext
from zkbroker.log.loading import LoadPlan, load
from zkbroker.log.lock import DirectoryLock
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery import Cut
from zkbroker.log.results import LogState
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS

logger = logging.getLogger(__name__)


class DataDirectory:
    """A data directory of the broker and what the manager knows of it."""

    def __init__(self, context: LogContext) -> None:
        self.context = context
        self.root = context.root
        self.meta = MetaProperties(None, None)
        self.clean = False
        self.logs: dict[TopicPartition, Log] = {}
        """The logs whose directories are here."""
        self.loaded = False
        """Whether all of them are known."""
        self.recovery_points: dict[TopicPartition, int] = {}
        """As the checkpoint has them."""
        self.start_offsets: dict[TopicPartition, int] = {}
        """As the checkpoint has them."""
        self._writing = context.runtime.lock()
        self._found: list[tuple[TopicPartition, Path, LogState]] = []
        self._lock: DirectoryLock | None = None

    def open(self) -> None:
        """Lock the directory and read what lies beside the partitions.

        Raises:
            StorageError: somebody else uses it. A disk that fails takes it offline instead.
        """
        try:
            self._make(self.root)
            self._lock = DirectoryLock(self.root)
            self.meta = checkpoints.read_meta(self.root)
            self.clean = (self.root / names.CLEAN_SHUTDOWN).exists()
            self.recovery_points = self._read(names.RECOVERY_POINTS)
            self.start_offsets = self._read(names.START_OFFSETS)
        except OSError as error:
            self.context.fail(error)

    def _make(self, path: Path) -> None:
        if not path.exists():
            self._make(path.parent)
            self.context.fs.mkdir(path)
            self.context.fs.fsync_dir(path.parent)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.root / name)
        except StorageError as error:
            # Without it more is verified than needed, and deleted messages come back: both safe.
            logger.warning("checkpoint ignored reason=%s", error)
            self.clean = False
            return {}

    def partitions(self) -> list[tuple[TopicPartition, Path]]:
        """Return the partitions whose directories are here; deleted ones are removed."""
        found: list[tuple[TopicPartition, Path]] = []
        for path in sorted(self.root.iterdir()):
            if not path.is_dir():
                continue
            if names.is_delete_directory(path):
                self.context.fs.remove_tree(path)
                continue
            try:
                found.append((TopicPartition.parse(path.name), path))
            except ValueError:
                logger.warning("directory ignored path=%s", path)
        return found

    def load(self, config_of: Callable[[str], LogConfig]) -> list[Cut]:
        """Recover every partition here; it runs in any thread and keeps no file open.

        Args:
            config_of: effective settings of a topic.

        Raises:
            StorageError: not every partition can be known, and the disk is not to blame.
        """
        started = time.monotonic()
        cuts: list[Cut] = []
        try:
            for tp, path in self.partitions():
                state, reports = load(self._plan(tp, path, config_of(tp.topic), clean=self.clean))
                self._found.append((tp, path, state))
                cuts += reports
        except OSError as error:
            failure = self.context.fail(error)
            if self.context.offline is None:
                raise failure from error
        logger.info(
            "data directory loaded path=%s partitions=%d clean=%s seconds=%.3f",
            self.root,
            len(self._found),
            self.clean,
            time.monotonic() - started,
        )
        return cuts

    def _plan(self, tp: TopicPartition, path: Path, config: LogConfig, *, clean: bool) -> LoadPlan:
        return LoadPlan(
            fs=self.context.fs,
            directory=path,
            clean=clean,
            recovery_point=self.recovery_points.get(tp, 0),
            log_start_offset=self.start_offsets.get(tp, 0),
            index_interval_bytes=config.index_interval_bytes,
            gaps_allowed=config.compacted or tp.topic in INTERNAL_TOPICS,
            now_ms=self.context.now_ms,
        )

    def found(self) -> list[TopicPartition]:
        """Return the partitions that `load` found."""
        return [tp for tp, _, _ in self._found]

    def open_logs(self, config_of: Callable[[str], LogConfig]) -> None:
        """Open the logs that `load` found, until the disk fails.

        Raises:
            StorageError: one cannot be opened, and the disk is not to blame.
        """
        for tp, path, state in self._found:
            try:
                self.logs[tp] = Log(tp, path, config_of(tp.topic), self.context, state)
            except StorageError:
                if self.context.offline is None:
                    raise
                return
        self._found.clear()
        self.loaded = self.context.offline is None

    def create(self, tp: TopicPartition, config: LogConfig) -> Log:
        """Make the log of a partition that has none, and its directory's name stable.

        Raises:
            StorageError: the disk failed.
        """
        path = self.root / str(tp)
        if tp in self.recovery_points or tp in self.start_offsets:
            # What was noted of an earlier partition of this name says nothing of this one.
            self.write_checkpoints()
            if self.context.offline is not None:
                raise self.context.error(self.context.offline)
        with self.context.storage():
            state, _ = load(self._plan(tp, path, config, clean=False))
            log = Log(tp, path, config, self.context, state)
            self.context.runtime.offload(self.context.fs.fsync_dir, path)
            self.context.runtime.offload(self.context.fs.fsync_dir, self.root)
        self.logs[tp] = log
        return log

    def begin(self) -> None:
        """Remove the clean-shutdown marker for good; to be done before the first append."""
        try:
            if self.clean:
                self.context.fs.unlink(self.root / names.CLEAN_SHUTDOWN)
            self.context.fs.fsync_dir(self.root)
        except OSError as error:
            self.context.fail(error)

    def write_meta(self, meta: MetaProperties) -> None:
        """Note whose directory it is."""
        if self.context.offline is None and meta != self.meta:
            try:
                checkpoints.write_meta(self.context.fs, self.root, meta)
                self.meta = meta
            except OSError as error:
                self.context.fail(error)

    def write_checkpoints(self) -> None:
        """Write the recovery points, start offsets and high watermarks, off the event loop."""
        # One writer at a time: it takes the values and writes them, so none goes back.
        with self._writing:
            # Of the logs that are here now: reading a recovery point may wait for a log's lock.
            logs = list(self.logs.items())
            marks = {tp: log.high_watermark for tp, log in logs}
            self.recovery_points = {tp: log.recovery_point for tp, log in logs}
            self._write(names.RECOVERY_POINTS, self.recovery_points)
            self._write(names.HIGH_WATERMARKS, marks)
            self.write_start_offsets()

    def write_start_offsets(self) -> None:
        """Write the start offsets of the logs here that do not begin at 0, off the event loop."""
        with self._writing:
            starts = {tp: log.log_start_offset for tp, log in list(self.logs.items())}
            self.start_offsets = {tp: start for tp, start in starts.items() if start > 0}
            self._write(names.START_OFFSETS, self.start_offsets)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self.context.offline is None:
            try:
                self.context.runtime.offload(
                    checkpoints.write_offsets, self.context.fs, self.root / name, offsets
                )
            except OSError as error:
                self.context.fail(error)

    def mark_clean(self) -> None:
        """Write the clean-shutdown marker."""
        if self.context.offline is None:
            try:
                self.context.fs.write_file(self.root / names.CLEAN_SHUTDOWN, b"")
            except OSError as error:
                self.context.fail(error)

    def close(self) -> None:
        """Give the directory up."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def agree(directories: list[DataDirectory], broker_id: int | None) -> MetaProperties:
    """Return the ids that the directories agree on.

    Args:
        directories: those that could be opened.
        broker_id: as configured; None or a negative one takes what is stored.

    Raises:
        ConfigError: they contradict each other, or the configuration.
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
