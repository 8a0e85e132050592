"""What all parts of a log manager share: directories, logs, their settings and high watermarks.

Invariant: a directory that fails goes offline with its logs, which stay known and refuse every
call; the others go on.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import StorageError
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.cleaner import LogCleaner
from zkbroker.log.directory import DataDirectory
from zkbroker.log.fs import FileSystem
from zkbroker.log.log import Log
from zkbroker.log.maintenance import Schedule
from zkbroker.log.names import TopicPartition
from zkbroker.log.results import LogState
from zkbroker.log.segments.open_files import OpenFiles
from zkbroker.runtime import Runtime, get_runtime

HighWatermarks: TypeAlias = Callable[[], Mapping[TopicPartition, int]]


def wall_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


class ManagedLogs:
    """The logs of a broker, and what is known of each."""

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
            open_limit: how many logs may be open at the start; further ones stay closed until
                they are asked for.
        """
        self._open_limit = open_limit
        self._unopened: dict[TopicPartition, tuple[DataDirectory, Path, LogState]] = {}
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
        self._logs: dict[TopicPartition, Log] = {}
        self._asked = False
        self._high_watermarks: HighWatermarks | None = None
        self._schedule = Schedule(self._runtime)
        self.cleaner = LogCleaner(
            config,
            logs=self._deletable,
            present=self._partitions_beside,
            runtime=self._runtime,
            now_ms=now_ms,
        )
        """Compacts logs, where `log.cleaner.enable` lets it."""
        self._checkpoint_due_ms = self._retention_due_ms = 0
        self._offline_callbacks: list[Callable[[str, list[TopicPartition], str], None]] = []

    def _online(self) -> list[DataDirectory]:
        return [each for each in self._directories if each.offline is None]

    # Logs

    def logs(self) -> dict[TopicPartition, Log]:
        """Return every log, those of offline directories too."""
        return dict(self._logs)

    def by_directory(self) -> dict[str, dict[TopicPartition, Log]]:
        """Return the logs of each data directory, by its path."""
        found: dict[str, dict[TopicPartition, Log]] = {
            str(each.root): {} for each in self._directories
        }
        for tp, log in self.logs().items():
            found[str(log.directory.root)][tp] = log
        return found

    def get(self, tp: TopicPartition) -> Log | None:
        """Return a partition's log, None when there is none."""
        return self._logs.get(tp)

    def highest_producer_id(self) -> int:
        """Return the highest id of an idempotent producer that a log knows, -1 for none."""
        known = [log.producers for log in self.logs().values()]
        known += [state.producers for _, _, state in self._unopened.values()]
        return max((each for producers in known for each in producers.producer_ids()), default=-1)

    def knows_settings_of(self, topic: str) -> bool:
        """Whether a topic's own settings were told; until then nothing of it is deleted."""
        return topic in self._configured

    def topic_config(self, topic: str) -> LogConfig:
        """Return the effective settings of a topic.

        Raises:
            ConfigError: its overrides are not allowed.
        """
        overrides = self._config.topic_overrides(topic) | self._overrides.get(topic, {})
        return self._defaults.with_topic_overrides(overrides)

    def _deletable(self) -> list[tuple[Log, int]]:
        """Return the logs that something may be taken from, with their high watermarks."""
        marks = self._high_watermarks() if self._high_watermarks is not None else None
        return [
            (log, log.log_end_offset if marks is None else marks[log.topic_partition])
            for log in self._online_logs()
            if log.topic_partition.topic in self._configured
            and (marks is None or log.topic_partition in marks)
        ]

    def _partitions_beside(self, log: Log) -> set[TopicPartition]:
        """Return the partitions that have a log in the same data directory."""
        here = {tp for tp, found in self._unopened.items() if found[0] is log.directory}
        return here | {tp for tp, each in self.logs().items() if each.directory is log.directory}

    def _online_logs(self) -> list[Log]:
        return [log for log in self.logs().values() if log.directory.offline is None]

    # High watermarks

    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that the last broker of these directories wrote."""
        return {
            tp: offset
            for directory in self._directories
            for tp, offset in directory.high_watermarks.items()
        }

    def use_high_watermarks(self, read: HighWatermarks) -> None:
        """Have high watermarks from now on: they are checkpointed, and bound what is deleted.

        Args:
            read: returns those that are known; it must not wait for a log.
        """
        self._high_watermarks = read

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermarks that are known, those of the checkpoint until others are."""
        if self._high_watermarks is not None:
            return dict(self._high_watermarks())
        return self.checkpointed_high_watermarks()

    # Failing disks

    def _all_offline(self) -> str:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in self.offline_dirs().items())
        return (
            f"no data directory can be used ({reasons}): make one of them a directory with room "
            "that this user may write, or change log.dirs"
        )

    def failure(self) -> StorageError | None:
        """Return why nothing can be stored any more, None while one directory can be used."""
        if any(each.offline is None for each in self._directories):
            return None
        return StorageError(self._all_offline())

    def offline_dirs(self) -> dict[str, str]:
        """Return the directories that cannot be used, with the reason."""
        return {
            str(each.root): each.offline for each in self._directories if each.offline is not None
        }

    def on_offline(self, callback: Callable[[str, list[TopicPartition], str], None]) -> None:
        """Have a function called with path, partitions and reason when a directory fails.

        It is called where the error was met, perhaps in another thread: it must only set an event.
        """
        self._offline_callbacks.append(callback)

    def _went_offline(self, directory: DataDirectory) -> None:
        lost = {tp: log for tp, log in self.logs().items() if log.directory is directory}
        for log in lost.values():
            log.durability.fail(directory.offline or "offline")
        for callback in self._offline_callbacks:
            callback(str(directory.root), list(lost), directory.offline or "")
