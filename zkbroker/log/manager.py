"""All logs of a broker, over several data directories.

Invariant: a partition's log lives in exactly one data directory. A directory that fails goes
offline with its logs, which stay known and refuse every call; the others go on. A clean shutdown is
marked only when everything was closed without an error.
"""

import contextlib
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
from zkbroker.log.loading import LoadPlan, load
from zkbroker.log.log import Log
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery import Cut
from zkbroker.log.results import LogState
from zkbroker.log.retention import make_policy
from zkbroker.log.segment import OpenFiles
from zkbroker.runtime import Event, Runtime, Task, get_runtime

logger = logging.getLogger(__name__)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics whose logs are rewritten, so that their offsets may have gaps."""


_FIRST_RETENTION_MS = 30_000


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
        self._logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, DataDirectory] = {}
        self._meta = MetaProperties(None, None)
        self._lock = self._runtime.lock()
        self._stopping: Event = self._runtime.event()
        self._tasks: list[Task] = []
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
        for work, name in ((self._flush_loop, "log-flush"), (self._upkeep_loop, "log-upkeep")):
            self._tasks.append(self._runtime.spawn(work, name=name))
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
        loaded: dict[Path, list[tuple[TopicPartition, Path, LogState]]] = {}

        def load_one(directory: DataDirectory) -> None:
            found, reports = self._runtime.offload(self._load_directory, directory)
            loaded[directory.root] = found
            cuts.extend(reports)

        tasks = [
            self._runtime.spawn(load_one, directory, name=f"recover-{directory.root}")
            for directory in self._online()
        ]
        for task in tasks:
            task.join()
        for directory in self._online():
            if directory.root not in loaded:
                raise StorageError(
                    f"data directory {directory.root} could not be loaded; see the log"
                )
            for tp, path, state in loaded[directory.root]:
                if tp in self._logs:
                    raise StorageError(
                        f"{tp} is in {self._homes[tp].root} and in {directory.root}: remove one"
                    )
                try:
                    log = Log(tp, path, self.topic_config(tp.topic), directory.context, state)
                except StorageError:
                    break
                self._logs[tp] = log
                self._homes[tp] = directory
        return cuts

    def _load_directory(
        self, directory: DataDirectory
    ) -> tuple[list[tuple[TopicPartition, Path, LogState]], list[Cut]]:
        found: list[tuple[TopicPartition, Path, LogState]] = []
        cuts: list[Cut] = []
        started = time.monotonic()
        try:
            for tp, path in directory.partitions():
                config = self.topic_config(tp.topic)
                plan = LoadPlan(
                    fs=self.fs,
                    directory=path,
                    clean=directory.clean,
                    recovery_point=directory.recovery_points.get(tp, 0),
                    log_start_offset=directory.start_offsets.get(tp, 0),
                    index_interval_bytes=config.index_interval_bytes,
                    gaps_allowed=config.compacted or tp.topic in INTERNAL_TOPICS,
                    now_ms=self._now_ms,
                )
                state, reports = load(plan)
                found.append((tp, path, state))
                cuts += reports
        except OSError as error:
            directory.context.fail(error)
        logger.info(
            "data directory loaded path=%s partitions=%d clean=%s seconds=%.3f",
            directory.root,
            len(found),
            directory.clean,
            time.monotonic() - started,
        )
        return found, cuts

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
        return dict(self._logs)

    def get(self, tp: TopicPartition) -> Log | None:
        """Return a partition's log, None when there is none."""
        return self._logs.get(tp)

    def topic_config(self, topic: str) -> LogConfig:
        """Return the effective settings of a topic.

        Raises:
            ConfigError: its overrides are not allowed.
        """
        overrides = self._config.topic_overrides(topic) | self._overrides.get(topic, {})
        return self._defaults.with_topic_overrides(overrides)

    def get_or_create(self, tp: TopicPartition, overrides: Mapping[str, str] | None = None) -> Log:
        """Return a partition's log, made in the directory with the fewest where there is none.

        Args:
            tp: the partition.
            overrides: the topic's own settings from now on; None leaves them.

        Raises:
            StorageError: no directory can be used.
            ConfigError: the overrides are not allowed.
        """
        if overrides is not None and dict(overrides) != self._overrides.get(tp.topic, {}):
            self.update_topic_config(tp.topic, overrides)
        with self._lock:
            log = self._logs.get(tp)
            if log is not None:
                return log
            config = self.topic_config(tp.topic)
            while online := self._online():
                directory = min(online, key=self._load_of)
                try:
                    return self._create(tp, config, directory)
                except StorageError:
                    if directory.context.offline is None:
                        raise
            raise StorageError(f"{tp} cannot be stored: {self._all_offline()}")

    def _load_of(self, directory: DataDirectory) -> int:
        return sum(home is directory for home in self._homes.values())

    def _create(self, tp: TopicPartition, config: LogConfig, directory: DataDirectory) -> Log:
        path = directory.root / str(tp)
        plan = LoadPlan(
            fs=self.fs,
            directory=path,
            clean=False,
            index_interval_bytes=config.index_interval_bytes,
            gaps_allowed=config.compacted or tp.topic in INTERNAL_TOPICS,
            now_ms=self._now_ms,
        )
        try:
            state, _ = load(plan)
            log = Log(tp, path, config, directory.context, state)
            self.fs.fsync_dir(path)
            self.fs.fsync_dir(directory.root)
        except OSError as error:
            raise directory.context.fail(error) from error
        self._logs[tp] = log
        self._homes[tp] = directory
        logger.info("log created partition=%s directory=%s", tp, path)
        return log

    def delete(self, tp: TopicPartition) -> None:
        """Remove a partition: its directory is renamed at once, its files go after a delay.

        Readers that hold a slice keep it. Without effect when there is no such log.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            log = self._logs.pop(tp, None)
            if log is None:
                return
            directory = self._homes.pop(tp)
            doomed = directory.root / names.delete_directory_name(tp)
            try:
                self.fs.rename(log.directory, doomed)
                self.fs.fsync_dir(directory.root)
            except OSError as error:
                raise directory.context.fail(error) from error
            finally:
                log.mark_deleted()
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
        for tp, log in self.logs().items():
            if tp.topic == topic:
                log.update_config(config)

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
        lost = [tp for tp, home in list(self._homes.items()) if home.context is context]
        for tp in lost:
            log = self._logs.get(tp)
            if log is not None:
                log.mark_offline()
        for callback in self._offline_callbacks:
            callback(str(context.root), lost, context.offline or "")

    # Background work

    def flush_due(self, now_ms: int | None = None) -> int | None:
        """Flush every log whose oldest unflushed message has reached `flush.ms`.

        Returns:
            When the next one is due, in ms since 1970; None when nothing waits.
        """
        now = self._now_ms() if now_ms is None else now_ms
        following: int | None = None
        for log in self.logs().values():
            since = log.unflushed_since_ms
            if since is None or log.offline is not None:
                continue
            due = since + log.config.flush_ms
            if due <= now:
                try:
                    log.flush()
                except StorageError as error:
                    logger.debug("flush failed partition=%s error=%s", log.topic_partition, error)
            elif following is None or due < following:
                following = due
        return following

    def checkpoint(self) -> None:
        """Write the recovery points, start offsets and high watermarks, off the event loop."""
        for directory in self._online():
            self._runtime.offload(directory.write_checkpoints, self._logs_in(directory))

    def _logs_in(self, directory: DataDirectory) -> dict[TopicPartition, Log]:
        return {tp: log for tp, log in self.logs().items() if self._homes.get(tp) is directory}

    def _save_start_offsets(self, context: LogContext) -> None:
        for directory in self._directories:
            if directory.context is context:
                here = self._logs_in(directory)
                self._runtime.offload(directory.write_start_offsets, here)

    def run_retention(self, now_ms: int | None = None) -> int:
        """Delete what every log's retention policy lets go; returns how many segments."""
        now = self._now_ms() if now_ms is None else now_ms
        deleted = 0
        for tp, log in self.logs().items():
            if log.offline is None:
                try:
                    deleted += log.delete_old_segments(now)
                except (ConfigError, StorageError) as error:
                    logger.warning("retention failed partition=%s error=%s", tp, error)
        return deleted

    def run_deletions(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over, off the event loop; returns how many paths."""
        now = self._now_ms() if now_ms is None else now_ms
        removed = 0
        for directory in self._online():
            context = directory.context
            for pair in [pair for pair in context.doomed if pair[0] <= now]:
                context.doomed.remove(pair)
                try:
                    self._runtime.offload(self._remove, pair[1])
                except OSError as error:
                    context.fail(error)
                    break
                removed += 1
        return removed

    def _remove(self, path: Path) -> None:
        if path.is_dir():
            self.fs.remove_tree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                self.fs.unlink(path)

    def _flush_loop(self) -> None:
        while not self._stopping.is_set():
            following = self.flush_due()
            now = self._now_ms()
            wait_ms = min(self._config.flush_scheduler_ms, 1000, self._shortest_flush_ms())
            if following is not None:
                wait_ms = min(wait_ms, max(following - now, 1))
            self._stopping.wait(wait_ms / 1000)

    def _shortest_flush_ms(self) -> int:
        every = [log.config.flush_ms for log in self.logs().values()]
        return max(min(every, default=1000), 1)

    def _upkeep_loop(self) -> None:
        now = self._now_ms()
        checkpoint_due = now + self._config.recovery_checkpoint_ms
        retention_due = now + min(self._config.retention_check_ms, _FIRST_RETENTION_MS)
        while not self._stopping.wait(1.0):
            now = self._now_ms()
            self.run_deletions(now)
            if now >= checkpoint_due:
                self.checkpoint()
                checkpoint_due = now + self._config.recovery_checkpoint_ms
            if now >= retention_due:
                self.run_retention(now)
                retention_due = now + self._config.retention_check_ms

    # End

    def close(self, timeout_s: float = 30.0) -> None:
        """Stop the tasks, close every log, mark the clean shutdown and unlock.

        Raises:
            StorageError: a log could not be closed; its directory is not marked clean.
        """
        self._stop_tasks(timeout_s)
        failure: StorageError | None = None
        points: dict[DataDirectory, dict[TopicPartition, Log]] = {}
        for tp, log in self._logs.items():
            directory = self._homes[tp]
            try:
                log.close()
                points.setdefault(directory, {})[tp] = log
            except StorageError as error:
                failure = failure or error
        for directory in self._directories:
            directory.write_checkpoints(points.get(directory, {}))
            directory.mark_clean()
        self.abandon()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Stop the tasks and unlock, and leave every file as it is: as a killed process would."""
        self._stop_tasks(10.0)
        for log in self._logs.values():
            log.release_files()
        for directory in self._directories:
            directory.close()

    def _stop_tasks(self, timeout_s: float) -> None:
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        for task in self._tasks:
            task.join(max(deadline - time.monotonic(), 0.1))
