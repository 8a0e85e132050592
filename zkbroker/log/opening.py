"""Opening the logs of all data directories when a broker starts.

Invariant: a partition's log lives in exactly one data directory. The topics' settings are known
before a log is recovered; a log whose settings nobody knows is recovered as if it were compacted.
"""

import errno
import logging
import time
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import TypeAlias

from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.directory import DataDirectory
from zkbroker.log.log import Log
from zkbroker.log.managed import ManagedLogs
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery.loading import ANYWHERE, LoadPlan, load
from zkbroker.log.recovery.scan import Cut
from zkbroker.log.results import LogState
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS

logger = logging.getLogger(__name__)

TopicSettings: TypeAlias = Callable[[Set[str]], Mapping[str, Mapping[str, str]]]


class OpenedLogs(ManagedLogs):
    """How the logs that are on disk are opened."""

    def _load_all(self, topic_settings: TopicSettings | None) -> list[Cut]:
        places: dict[TopicPartition, Path] = {}
        found: list[tuple[DataDirectory, list[tuple[TopicPartition, Path]]]] = []
        for directory in self._online():
            try:
                here = self._runtime.offload(directory.partitions)
            except OSError as error:
                directory.fail(error)
                continue
            for tp, _ in here:
                if tp in places:
                    raise StorageError(
                        f"{tp} is in {places[tp]} and in {directory.root}: remove one"
                    )
                places[tp] = directory.root
            found.append((directory, here))
        if topic_settings is not None:
            self._asked = True
            self._learn(topic_settings, found)
        cuts: list[Cut] = []
        failures: list[StorageError] = []
        loaded: list[tuple[DataDirectory, list[tuple[TopicPartition, Path, LogState]]]] = []

        def load_one(directory: DataDirectory, here: list[tuple[TopicPartition, Path]]) -> None:
            try:
                states = self._runtime.offload(self._load_directory, directory, here, cuts)
            except OSError as error:
                failure = directory.fail(error)
                if directory.offline is None:
                    failures.append(failure)
            except StorageError as error:
                failures.append(error)
            else:
                loaded.append((directory, states))

        tasks = [
            self._runtime.spawn(load_one, directory, here, name=f"recover-{directory.root}")
            for directory, here in found
            if here
        ]
        loaded += [(directory, []) for directory, here in found if not here]
        for task in tasks:
            task.join()
        if failures:
            raise failures[0]
        for directory, states in loaded:
            self._open_logs(directory, states)
        return cuts

    def _learn(
        self,
        topic_settings: TopicSettings,
        found: list[tuple[DataDirectory, list[tuple[TopicPartition, Path]]]],
    ) -> None:
        """Ask for the settings of the topics that have logs to be recovered."""
        topics = {tp.topic for directory, here in found if not directory.clean for tp, _ in here}
        if not topics:
            return
        for topic, overrides in topic_settings(topics).items():
            try:
                self._defaults.with_topic_overrides(
                    self._config.topic_overrides(topic) | dict(overrides)
                )
            except ConfigError as error:
                logger.warning("topic configuration not applied topic=%s error=%s", topic, error)
                continue
            self._overrides[topic] = dict(overrides)
            self._configured.add(topic)

    def _load_directory(
        self,
        directory: DataDirectory,
        here: list[tuple[TopicPartition, Path]],
        cuts: list[Cut],
    ) -> list[tuple[TopicPartition, Path, LogState]]:
        started = time.monotonic()
        states = []
        for tp, path in here:
            state, reports = load(self._plan(directory, tp, path, clean=directory.clean))
            states.append((tp, path, state))
            cuts += reports
        logger.info(
            "data directory loaded path=%s partitions=%d clean=%s seconds=%.3f",
            directory.root,
            len(states),
            directory.clean,
            time.monotonic() - started,
        )
        return states

    def _plan(
        self, directory: DataDirectory, tp: TopicPartition, path: Path, *, clean: bool
    ) -> LoadPlan:
        config = self.topic_config(tp.topic)
        # Whoever starts without asking for settings has told them all.
        known = not self._asked or tp.topic in self._configured
        # Offsets are missing for good where a log was ever compacted, whatever its topic says now.
        compacted = config.compacted or tp.topic in INTERNAL_TOPICS or tp in directory.cleaned
        # A pass begins with a checkpoint. Where there is none, nothing is known of passes either.
        below = ANYWHERE
        if tp in directory.recovery_points:
            below = max(directory.recovery_points[tp], directory.cleaned.get(tp, 0))
        return LoadPlan(
            fs=self.fs,
            directory=path,
            clean=clean,
            recovery_point=directory.recovery_points.get(tp, 0),
            log_start_offset=directory.start_offsets.get(tp, 0),
            index_interval_bytes=config.index_interval_bytes,
            gaps_allowed=compacted if known or compacted else None,
            compacted_below=below,
            now_ms=self._now_ms,
        )

    def _open_logs(
        self, directory: DataDirectory, states: list[tuple[TopicPartition, Path, LogState]]
    ) -> None:
        unopened = []
        for tp, path, state in states:
            if len(self._logs) >= self._open_limit:
                unopened.append(tp)
                self._unopened[tp] = (directory, path, state)
                continue
            try:
                config = self.topic_config(tp.topic)
                self._logs[tp] = Log(tp, path, config, directory, state)
            except StorageError as error:
                if out_of_descriptors(error):
                    unopened.append(tp)
                    self._unopened[tp] = (directory, path, state)
                    continue
                if directory.offline is None:
                    raise
                return
        if unopened:
            logger.error(
                "partitions not opened path=%s count=%d first=%s: no more files may be open; raise "
                "the limit (ulimit -n), or move partitions to other brokers",
                directory.root,
                len(unopened),
                min(unopened),
            )
        directory.loaded = True


def out_of_descriptors(error: StorageError) -> bool:
    """Whether the process has no file descriptor left, which says nothing of the disk."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE)
