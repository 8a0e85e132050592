"""All logs of a broker, over several data directories.

    directories     the data directories
    settings        of topics
    logs            open and unopened logs
    loader          recovery and opening at the start
    upkeep          flushes, checkpoints, retention, removal of files
    cleaner         compaction

Invariant: a partition's log lives in exactly one data directory. A directory that fails goes
offline with its logs, which stay and refuse every call; the others go on. A clean shutdown is
marked only when everything was closed without an error.
"""

import contextlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.cleaner import LogCleaner
from zkbroker.log.directories import DataDirectories
from zkbroker.log.directory import DataDirectory
from zkbroker.log.fs import FileSystem
from zkbroker.log.loader import LogLoader
from zkbroker.log.log import Log
from zkbroker.log.log_set import LogSet
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery.scan import Cut
from zkbroker.log.segments.open_files import OpenFiles
from zkbroker.log.topic_settings import ReadSettings, TopicSettings
from zkbroker.log.upkeep import HighWatermarks, LogUpkeep
from zkbroker.measures import Histogram
from zkbroker.runtime import Runtime, get_runtime

logger = logging.getLogger(__name__)


def wall_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


class LogManager:
    """Opens, makes, deletes and maintains the logs of a broker."""

    def __init__(
        self,
        config: LogManagerConfig,
        defaults: LogConfig,
        *,
        runtime: str | Runtime = "threads",
        topic_overrides: Mapping[str, Mapping[str, str]] | None = None,
        now_ms: Callable[[], int] = wall_ms,
        fs: FileSystem | None = None,
        open_limit: int = sys.maxsize,
    ) -> None:
        """Make a manager; `start` opens the directories.

        Args:
            config: settings of all logs together.
            defaults: settings of a topic without its own.
            runtime: concurrency.
            topic_overrides: topic to its own settings, under topic-level names.
            now_ms: the clock.
            fs: the file system.
            open_limit: how many logs may be open at the start; further ones are opened on demand.
        """
        self._config = config
        self._runtime = get_runtime(runtime)
        self._now_ms = now_ms
        self.fs = fs if fs is not None else FileSystem()
        open_files = OpenFiles(self._runtime, self.fs, config.open_segments)
        self._lock = self._runtime.lock()
        self._offline_callbacks: list[Callable[[str, list[TopicPartition], str], None]] = []
        self._settings = TopicSettings(config, defaults, topic_overrides or {})
        self._directories = DataDirectories(
            [
                DataDirectory(
                    Path(root), self._runtime, self.fs, now_ms, open_files, self._went_offline
                )
                for root in dict.fromkeys(config.log_dirs)
            ]
        )
        self._logs = LogSet()
        self._loader = LogLoader(
            self._directories, self._logs, self._settings, self._runtime, open_limit
        )
        self.upkeep = LogUpkeep(
            config, self._directories, self._logs, self._settings, self._runtime, now_ms
        )
        self.cleaner = LogCleaner(
            config,
            logs=self.upkeep.deletable,
            present=self._logs.partitions_beside,
            runtime=self._runtime,
            now_ms=now_ms,
        )
        """Compacts logs, if `log.cleaner.enable` allows it."""

    def start(
        self, *, broker_id: int | None = None, topic_settings: ReadSettings | None = None
    ) -> list[Cut]:
        """Lock the directories, recover the logs, and start the background tasks.

        Args:
            broker_id: as configured; checked against `meta.properties`.
            topic_settings: called once with the topics whose logs are to be recovered; returns
                the topics' own settings. A topic that it leaves out is unknown: its logs are
                recovered as if they were compacted, and nothing in them is deleted. None: only
                topics of `topic_overrides` have settings of their own.

        Returns:
            the cuts that recovery made; each was logged.

        Raises:
            StorageError: a directory is in use, none can be used, or a partition is in two.
            ConfigError: the directories belong to another broker.
        """
        self._settings.check_defaults()
        try:
            self._directories.open(broker_id)
            cuts = self._loader.load_all(topic_settings)
            self._directories.require_one()
        except BaseException:
            self.abandon()
            raise
        for directory in self._directories.online():
            directory.begin()
        self.upkeep.start()
        if self._config.cleaner_enable:
            self.cleaner.start()
        return cuts

    # Identity

    @property
    def stored_broker_id(self) -> int | None:
        """Broker id in `meta.properties`, None for new directories."""
        return self._directories.meta.broker_id

    @property
    def new_directories(self) -> list[str]:
        """The data directories without a broker id: new ones, and those that lost their files."""
        online = self._directories.online()
        return [str(each.root) for each in online if each.meta.broker_id is None]

    def write_meta(
        self, broker_id: int, cluster_id: str | None, *, new_directories: bool = True
    ) -> None:
        """Write the broker's and the cluster's id into all directories, or into those with ids.

        Raises:
            ConfigError: the directories belong to another broker or cluster.
            StorageError: none of them can be written.
        """
        self._directories.write_meta(broker_id, cluster_id, new_directories=new_directories)

    # Logs

    def logs(self) -> dict[TopicPartition, Log]:
        """Return every log, including those of offline directories."""
        return dict(self._logs.open)

    def by_directory(self) -> dict[str, dict[TopicPartition, Log]]:
        """Return the logs of each data directory, by its path."""
        return {str(each.root): self._logs.of(each) for each in self._directories.all}

    def get(self, tp: TopicPartition) -> Log | None:
        """Return a partition's log, None if there is none."""
        return self._logs.open.get(tp)

    def highest_producer_id(self) -> int:
        """Return the highest producer id in the logs, -1 if there is none."""
        return self._logs.highest_producer_id()

    def topic_config(self, topic: str) -> LogConfig:
        """Return the effective settings of a topic.

        Raises:
            ConfigError: its overrides are not allowed.
        """
        return self._settings.of(topic)

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace a topic's own settings, for its present and later logs.

        Raises:
            ConfigError: they are not allowed; nothing changed.
        """
        config = self._settings.set(topic, overrides)
        for tp, log in self._logs.all():
            if tp.topic == topic:
                log.update_config(config)

    def get_or_create(
        self,
        tp: TopicPartition,
        overrides: Mapping[str, str] | None = None,
        *,
        is_new: bool = False,
    ) -> Log:
        """Return a partition's log; a new one is created in the directory with the fewest logs.

        Args:
            tp: the partition.
            overrides: the topic's own settings from now on; None leaves them unchanged.
            is_new: the partition never had a log. Otherwise none is created while a directory
                could not be read at the start, because the log may be in there.

        Raises:
            StorageError: no directory can be used, or the partition may have a log already.
            ConfigError: the overrides are not allowed.
            ValueError: no directory can have that name; nothing was written.
        """
        TopicPartition.parse(str(tp))
        if overrides is not None:
            self._settings.known.add(tp.topic)
            if not self._settings.are(tp.topic, overrides):
                self.update_topic_config(tp.topic, overrides)
        with self._lock:
            log = self.get(tp)
            if log is not None:
                return log
            self._settings.known.add(tp.topic)
            if not is_new:
                self._directories.require_all_read(tp)
            found = self._logs.unopened.get(tp)
            if found is not None and found.directory.offline is None:
                log = self._loader.open(tp, found)
                del self._logs.unopened[tp]
                return log
            while online := self._directories.online():
                held = Counter(id(log.directory) for _, log in self._logs.all())
                directory = min(online, key=lambda each: held[id(each)])
                try:
                    return self._create(tp, directory)
                except StorageError:
                    if directory.offline is None:
                        raise
            raise StorageError(f"{tp} cannot be stored: {self._directories.failure()}")

    def _create(self, tp: TopicPartition, directory: DataDirectory) -> Log:
        path = directory.root / str(tp)
        directory.forget(tp)
        with directory.storage(), contextlib.ExitStack() as undo:
            if not path.exists():
                undo.callback(self._withdraw, directory, tp, path)
            state, _ = self._loader.recover(directory, tp, path, clean=False)
            log = Log(tp, path, self._settings.of(tp.topic), directory, state)
            undo.callback(log.segment_list.release_files)
            self._runtime.offload(self.fs.fsync_dir, path)
            self._runtime.offload(self.fs.fsync_dir, directory.root)
            undo.pop_all()
        self._logs.open[tp] = log
        logger.info("log created partition=%s directory=%s", tp, path)
        return log

    def _withdraw(self, directory: DataDirectory, tp: TopicPartition, path: Path) -> None:
        # The next attempt may choose another data directory, and no start accepts the log in two.
        # Without a free descriptor the path can still be renamed, and is removed later.
        doomed = directory.root / names.delete_directory_name(tp)
        with contextlib.suppress(OSError):
            self.fs.rename(path, doomed)
            directory.discard(doomed, self._now_ms())

    def delete(self, tp: TopicPartition) -> None:
        """Remove a partition: its directory is renamed at once, its files are removed later.

        Readers keep the slices that they hold. Without effect if there is no such log.

        Raises:
            StorageError: the disk failed, or it is unknown whether there is a log.
        """
        with self._lock:
            log = self._logs.open.pop(tp, None)
            unopened = self._logs.unopened.pop(tp, None)
            found = log or unopened
            if found is None:
                self._directories.require_all_read(tp)
                return
            directory = found.directory
            config = self._settings.of(tp.topic) if log is None else log.config
            doomed = directory.root / names.delete_directory_name(tp)
            try:
                if log is None:
                    self.fs.rename(found.path, doomed)
                else:
                    log.delete(doomed)
                self._runtime.offload(self.fs.fsync_dir, directory.root)
            except OSError as error:
                raise directory.fail(error) from error
            directory.discard(doomed, self._now_ms() + config.file_delete_delay_ms)
        logger.info("log deleted partition=%s directory=%s", tp, doomed)

    # High watermarks

    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that the last broker of these directories wrote."""
        return self.upkeep.checkpointed_high_watermarks()

    def use_high_watermarks(self, read: HighWatermarks) -> None:
        """Checkpoint these high watermarks from now on, and delete nothing above them.

        Args:
            read: returns the known ones; it must not wait for a log.
        """
        self.upkeep.read_high_watermarks = read

    def checkpoint_high_watermarks(self) -> None:
        """Write the changed high watermarks, into each data directory those of its logs."""
        self.upkeep.checkpoint_high_watermarks()

    # Disks

    def flush_times(self) -> dict[str, Histogram]:
        """Return how long flushes took, by data directory."""
        return {str(each.root): each.flush_times for each in self._directories.all}

    def failure(self) -> StorageError | None:
        """Return the error if no directory can be used any more, else None."""
        return self._directories.failure()

    def offline_dirs(self) -> dict[str, str]:
        """Return the directories that cannot be used, with the reason."""
        return self._directories.offline()

    def on_offline(self, callback: Callable[[str, list[TopicPartition], str], None]) -> None:
        """Register a function to call with path, partitions and reason when a directory fails.

        It is called where the error occurred, perhaps in another thread: it must only set an
        event.
        """
        self._offline_callbacks.append(callback)

    def _went_offline(self, directory: DataDirectory) -> None:
        lost = self._logs.of(directory)
        reason = directory.offline or ""
        for log in lost.values():
            log.durability.fail(reason)
        for callback in self._offline_callbacks:
            callback(str(directory.root), list(lost), reason)

    def update_defaults(self, defaults: LogConfig) -> None:
        """Use new settings for topics without their own, for present and future logs."""
        if self._settings.replace_defaults(defaults):
            for tp, log in self.logs().items():
                log.update_config(self.topic_config(tp.topic))

    # End

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop the tasks, close every log, mark the clean shutdown and unlock.

        Raises:
            StorageError: a log could not be closed; its directory is not marked clean.
        """
        self.upkeep.stop(timeout_s)
        self.cleaner.stop(timeout_s)
        failure: StorageError | None = None
        failed: set[int] = set()
        for _, log in self._logs.all():
            try:
                log.close()
            except StorageError as error:
                failed.add(id(log.directory))
                failure = failure or error
        self.upkeep.checkpoint()
        for directory in self._directories.online():
            if id(directory) not in failed:
                directory.mark_clean()
        self.abandon()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Stop the tasks, unlock, and leave every file as it is, as a killed process would."""
        self.upkeep.stop(10.0)
        self.cleaner.stop(10.0)
        for _, log in self._logs.all():
            log.segment_list.release_files()
        self._directories.close()
