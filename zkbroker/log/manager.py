"""All logs of a broker, over several data directories.

Invariant: a partition's log lives in exactly one data directory. A directory that fails goes
offline with its logs, which stay known and refuse every call; the others go on. A clean shutdown is
marked only when everything was closed without an error.
"""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.context import LogContext
from zkbroker.log.datadir import DataDirectory, agree
from zkbroker.log.fs import FileSystem
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.open_files import OpenFiles
from zkbroker.log.recovery import Cut
from zkbroker.log.retention import make_policy
from zkbroker.log.upkeep import Upkeep
from zkbroker.measures import Histogram
from zkbroker.runtime import Runtime, get_runtime

logger = logging.getLogger(__name__)


def wall_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


class LogManager:
    """Opens, makes, deletes and looks after the logs of a broker."""

    def __init__(
        self,
        config: LogManagerConfig,
        defaults: LogConfig,
        *,
        runtime: str | Runtime = "threads",
        topic_overrides: Mapping[str, Mapping[str, str]] | None = None,
        now_ms: Callable[[], int] = wall_ms,
        fs: FileSystem | None = None,
    ) -> None:
        """Make a manager; `start` opens the directories.

        Args:
            config: settings of all logs together.
            defaults: settings of a topic without its own.
            runtime: concurrency.
            topic_overrides: topic to its own settings, under topic-level names.
            now_ms: the clock.
            fs: the file system.
        """
        self._config = config
        self._defaults = defaults
        self._runtime = get_runtime(runtime)
        self._overrides = {topic: dict(each) for topic, each in (topic_overrides or {}).items()}
        self._now_ms = now_ms
        self.fs = fs if fs is not None else FileSystem()
        self._open_files = OpenFiles(self._runtime, config.open_segments)
        self._directories: list[DataDirectory] = []
        self._meta = MetaProperties(None, None)
        self._lock = self._runtime.lock()
        self._configured = set(self._overrides)
        self._upkeep = Upkeep(
            config,
            self._directories,
            self._runtime,
            now_ms,
            self.fs,
            lambda topic: topic in self._configured,
        )
        self._offline_callbacks: list[Callable[[str, list[TopicPartition], str], None]] = []

    # Start

    def start(self, *, broker_id: int | None = None) -> list[Cut]:
        """Lock the directories, recover what has to be, and start the background tasks.

        Args:
            broker_id: as configured; checked against `meta.properties`.

        Returns:
            What recovery cut off; each was logged.

        Raises:
            StorageError: a directory is in use, none can be used, or a partition is in two.
            ConfigError: the directories are another broker's.
        """
        make_policy(self._defaults, Path(self._config.log_dirs[0]))
        try:
            for root in dict.fromkeys(self._config.log_dirs):
                directory = DataDirectory(self._context(Path(root)))
                self._directories.append(directory)
                directory.open()
            self._meta = agree(self._online(), broker_id)
            cuts = self._load_all()
            if not self._online():
                raise StorageError(self._all_offline())
        except BaseException:
            self.abandon()
            raise
        for directory in self._online():
            directory.begin()
        self._upkeep.start()
        return cuts

    def _context(self, root: Path) -> LogContext:
        return LogContext(
            root,
            self._runtime,
            self.fs,
            self._now_ms,
            self._open_files,
            self._went_offline,
            self._save_start_offsets,
        )

    def _online(self) -> list[DataDirectory]:
        return [each for each in self._directories if each.context.offline is None]

    def _load_all(self) -> list[Cut]:
        cuts: list[Cut] = []
        failures: list[StorageError] = []

        def load_one(directory: DataDirectory) -> None:
            try:
                cuts.extend(self._runtime.offload(directory.load, self.topic_config))
            except StorageError as error:
                failures.append(error)

        tasks = [
            self._runtime.spawn(load_one, directory, name=f"recover-{directory.root}")
            for directory in self._online()
        ]
        for task in tasks:
            task.join()
        if failures:
            raise failures[0]
        for directory in self._online():
            for tp in directory.found():
                other = self._home(tp)
                if other is not None:
                    raise StorageError(
                        f"{tp} is in {other.root} and in {directory.root}: remove one"
                    )
            directory.open_logs(self.topic_config)
        return cuts

    # Identity

    @property
    def stored_broker_id(self) -> int | None:
        """Broker id in `meta.properties`, None in new directories."""
        return self._meta.broker_id

    @property
    def stored_cluster_id(self) -> str | None:
        """Cluster id in `meta.properties`, None in new directories."""
        return self._meta.cluster_id

    def write_meta(self, broker_id: int, cluster_id: str | None) -> None:
        """Note whose directories these are, in every directory.

        Raises:
            ConfigError: they are somebody else's.
            StorageError: none of them can be written.
        """
        agree(self._online(), broker_id)
        stored = self._meta.cluster_id
        if cluster_id is not None and stored is not None and stored != cluster_id:
            raise ConfigError(
                f"these log.dirs belong to cluster {stored}, and ZooKeeper to {cluster_id}: check "
                "zookeeper.connect, or give other log.dirs"
            )
        self._meta = MetaProperties(broker_id, cluster_id or stored)
        for directory in self._directories:
            directory.write_meta(self._meta)
        if not self._online():
            raise StorageError(self._all_offline())

    # Logs

    def logs(self) -> dict[TopicPartition, Log]:
        """Return every log, those of offline directories too."""
        return {tp: log for each in self._directories for tp, log in list(each.logs.items())}

    def get(self, tp: TopicPartition) -> Log | None:
        """Return a partition's log, None when there is none."""
        home = self._home(tp)
        return None if home is None else home.logs[tp]

    def _home(self, tp: TopicPartition) -> DataDirectory | None:
        for directory in self._directories:
            if tp in directory.logs:
                return directory
        return None

    def topic_config(self, topic: str) -> LogConfig:
        """Return the effective settings of a topic.

        Raises:
            ConfigError: its overrides are not allowed.
        """
        overrides = self._config.topic_overrides(topic) | self._overrides.get(topic, {})
        return self._defaults.with_topic_overrides(overrides)

    def get_or_create(
        self,
        tp: TopicPartition,
        overrides: Mapping[str, str] | None = None,
        *,
        is_new: bool = False,
    ) -> Log:
        """Return a partition's log, made in the directory with the fewest where there is none.

        Args:
            tp: the partition.
            overrides: the topic's own settings from now on; None leaves them.
            is_new: the partition never had a log. Without this none is made while a directory
                could not be read at the start: its log may be there.

        Raises:
            StorageError: no directory can be used, or it is not known whether there is a log.
            ConfigError: the overrides are not allowed.
        """
        if overrides is not None:
            self._configured.add(tp.topic)
            if dict(overrides) != self._overrides.get(tp.topic, {}):
                self.update_topic_config(tp.topic, overrides)
        with self._lock:
            log = self.get(tp)
            if log is not None:
                return log
            self._configured.add(tp.topic)
            unread = [str(each.root) for each in self._directories if not each.loaded]
            if unread and not is_new:
                raise StorageError(f"{tp} may be in {unread}, which could not be read")
            config = self.topic_config(tp.topic)
            while online := self._online():
                directory = min(online, key=lambda each: len(each.logs))
                try:
                    return self._create(tp, config, directory)
                except StorageError:
                    if directory.context.offline is None:
                        raise
            raise StorageError(f"{tp} cannot be stored: {self._all_offline()}")

    def _create(self, tp: TopicPartition, config: LogConfig, directory: DataDirectory) -> Log:
        log = directory.create(tp, config)
        logger.info("log created partition=%s directory=%s", tp, log.directory)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Remove a partition: its directory is renamed at once, its files go after a delay.

        Readers that hold a slice keep it. Without effect when there is no such log.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            directory = self._home(tp)
            if directory is None:
                return
            log = directory.logs.pop(tp)
            doomed = directory.root / names.delete_directory_name(tp)
            try:
                self.fs.rename(log.directory, doomed)
                log.mark_deleted()
                self._runtime.offload(self.fs.fsync_dir, directory.root)
            except OSError as error:
                log.mark_deleted()
                raise directory.context.fail(error) from error
            due = self._now_ms() + log.config.file_delete_delay_ms
            directory.context.doomed.append((due, doomed))
        logger.info("log deleted partition=%s directory=%s", tp, doomed)

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Give a topic other settings of its own, for its logs now and later.

        Raises:
            ConfigError: they are not allowed; nothing changed.
        """
        base = self._config.topic_overrides(topic)
        config = self._defaults.with_topic_overrides(base | dict(overrides))
        make_policy(config, Path(self._config.log_dirs[0]))
        self._overrides[topic] = dict(overrides)
        self._configured.add(topic)
        for tp, log in self.logs().items():
            if tp.topic == topic:
                log.update_config(config)

    def _save_start_offsets(self, context: LogContext) -> None:
        for directory in self._directories:
            if directory.context is context:
                directory.write_start_offsets()

    # Failing disks

    def _all_offline(self) -> str:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in self.offline_dirs().items())
        return (
            f"no data directory can be used ({reasons}): make one of them a directory with room "
            "that this user may write, or change log.dirs"
        )

    def offline_dirs(self) -> dict[str, str]:
        """Return the directories that cannot be used, with the reason."""
        return {
            str(each.root): each.context.offline
            for each in self._directories
            if each.context.offline is not None
        }

    def on_offline(self, callback: Callable[[str, list[TopicPartition], str], None]) -> None:
        """Have a function called with path, partitions and reason when a directory fails.

        It is called where the error was met, perhaps in another thread: it must only set an event.
        """
        self._offline_callbacks.append(callback)

    def _went_offline(self, context: LogContext) -> None:
        lost: list[TopicPartition] = []
        for directory in self._directories:
            if directory.context is context:
                lost = list(directory.logs)
                for log in list(directory.logs.values()):
                    log.mark_offline()
        for callback in self._offline_callbacks:
            callback(str(context.root), lost, context.offline or "")

    # Background work; the tasks call these in time, tests and tools when they want

    def flush_due(self, now_ms: int | None = None) -> int | None:
        """Flush the logs that are due; returns when the next one is (ms), None for none."""
        return self._upkeep.flush_due(now_ms)

    def checkpoint(self) -> None:
        """Write the recovery points, start offsets and high watermarks."""
        self._upkeep.checkpoint()

    def flush_times(self) -> dict[str, Histogram]:
        """Return how long flushes took, by data directory."""
        return {str(each.root): each.context.flush_times for each in self._directories}

    def run_retention(self, now_ms: int | None = None) -> int:
        """Delete what the logs' retention policies let go; returns how many segments.

        Only of topics whose own settings were told: by `topic_overrides`, `get_or_create` or
        `update_topic_config`.
        """
        return self._upkeep.run_retention(now_ms)

    def run_deletions(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over; returns how many paths."""
        return self._upkeep.run_deletions(now_ms)

    # End

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop the tasks, close every log, mark the clean shutdown and unlock.

        Raises:
            StorageError: a log could not be closed; its directory is not marked clean.
        """
        self._upkeep.stop(timeout_s)
        failure: StorageError | None = None
        for directory in self._directories:
            failed = False
            for log in list(directory.logs.values()):
                try:
                    log.close()
                except StorageError as error:
                    failed, failure = True, failure or error
            if directory.context.offline is None:
                directory.write_checkpoints()
                if not failed:
                    directory.mark_clean()
        self.abandon()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Stop the tasks and unlock, and leave every file as it is: as a killed process would."""
        self._upkeep.stop(10.0)
        for directory in self._directories:
            for log in list(directory.logs.values()):
                log.release_files()
            directory.close()
