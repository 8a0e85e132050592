"""Recovery and opening of the logs of all data directories when a broker starts.

Invariant: a partition's log lives in exactly one data directory. Topic settings are read before any
log is recovered; a log whose topic settings are unknown is recovered as if it were compacted.
"""

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from zkbroker.errors import StorageError
from zkbroker.log.directories import DataDirectories
from zkbroker.log.directory import NO_DESCRIPTORS, DataDirectory
from zkbroker.log.log import Log
from zkbroker.log.log_set import LogSet, UnopenedLog
from zkbroker.log.names import TopicPartition
from zkbroker.log.recovery.loading import ANYWHERE, LoadPlan, load
from zkbroker.log.recovery.scan import Cut
from zkbroker.log.results import LogState
from zkbroker.log.topic_settings import ReadSettings, TopicSettings
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_Found: TypeAlias = list[tuple[TopicPartition, Path]]
_Recovered: TypeAlias = list[tuple[TopicPartition, UnopenedLog]]


@dataclass(frozen=True, slots=True)
class LogLoader:
    """Recovers logs, and opens `open_limit` of them at most; the others stay unopened."""

    directories: DataDirectories
    logs: LogSet
    settings: TopicSettings
    runtime: Runtime
    open_limit: int

    def load_all(self, read_settings: ReadSettings | None) -> list[Cut]:
        """Recover and open every log; returns the cuts that recovery made.

        Args:
            read_settings: returns the stored settings of topics; None if all are known already.

        Raises:
            StorageError: a partition is in two directories, or a log cannot be recovered.
        """
        found = self._find()
        if read_settings is not None:
            unclean = [here for directory, here in found if not directory.clean]
            self.settings.learn(read_settings, {tp.topic for here in unclean for tp, _ in here})
        cuts: list[Cut] = []
        failures: list[Exception] = []
        recovered: list[tuple[DataDirectory, _Recovered]] = []

        def recover(directory: DataDirectory, here: _Found) -> None:
            try:
                logs = self.runtime.offload(self._recover_directory, directory, here, cuts)
            except OSError as error:
                failure = directory.fail(error)
                if directory.offline is None:
                    failures.append(failure)
            except Exception as error:  # noqa: BLE001 - raised below, by the task that waits
                failures.append(error)
            else:
                recovered.append((directory, logs))

        tasks = [
            self.runtime.spawn(recover, directory, here, name=f"recover-{directory.root}")
            for directory, here in found
            if here
        ]
        recovered += [(directory, []) for directory, here in found if not here]
        for task in tasks:
            task.join()
        if failures:
            raise failures[0]
        for directory, logs in recovered:
            self._open(directory, logs)
        return cuts

    def _find(self) -> list[tuple[DataDirectory, _Found]]:
        """Return the partitions of each readable data directory."""
        places: dict[TopicPartition, Path] = {}
        found = []
        for directory in self.directories.online():
            try:
                here = self.runtime.offload(directory.partitions)
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
        return found

    def _recover_directory(
        self, directory: DataDirectory, here: _Found, cuts: list[Cut]
    ) -> _Recovered:
        started = time.monotonic()
        recovered = []
        for tp, path in here:
            state, reports = self.recover(directory, tp, path, clean=directory.clean)
            recovered.append((tp, UnopenedLog(directory, path, state)))
            cuts += reports
        logger.info(
            "data directory loaded path=%s partitions=%d clean=%s seconds=%.3f",
            directory.root,
            len(recovered),
            directory.clean,
            time.monotonic() - started,
        )
        return recovered

    def recover(
        self, directory: DataDirectory, tp: TopicPartition, path: Path, *, clean: bool
    ) -> tuple[LogState, list[Cut]]:
        """Recover one log, or begin an empty one if there is none.

        Raises:
            OSError: the disk failed.
            StorageError: the log cannot be recovered.
        """
        config = self.settings.of(tp.topic)
        known = self.settings.complete or tp.topic in self.settings.known
        # A log that was ever compacted has gaps for good, whatever its topic's settings are.
        compacted = config.compacted or tp.topic in INTERNAL_TOPICS or tp in directory.cleaned
        # A compaction begins with a checkpoint: without one, any part may have been compacted.
        below = ANYWHERE
        if tp in directory.recovery_points:
            below = max(directory.recovery_points[tp], directory.cleaned.get(tp, 0))
        plan = LoadPlan(
            fs=directory.fs,
            directory=path,
            clean=clean,
            recovery_point=directory.recovery_points.get(tp, 0),
            log_start_offset=directory.start_offsets.get(tp, 0),
            index_interval_bytes=config.index_interval_bytes,
            gaps_allowed=compacted if known or compacted else None,
            compacted_below=below,
            now_ms=directory.now_ms,
        )
        return load(plan)

    def _open(self, directory: DataDirectory, recovered: _Recovered) -> None:
        unopened = []
        for tp, found in recovered:
            if len(self.logs.open) < self.open_limit:
                try:
                    self.open(tp, found)
                    continue
                except StorageError as error:
                    if directory.offline is not None:
                        return
                    if getattr(error.__cause__, "errno", None) not in NO_DESCRIPTORS:
                        raise
            unopened.append(tp)
            self.logs.unopened[tp] = found
        if unopened:
            logger.error(
                "partitions not opened path=%s count=%d first=%s: no more files may be open; raise "
                "the limit (ulimit -n), or move partitions to other brokers",
                directory.root,
                len(unopened),
                min(unopened),
            )
        directory.loaded = True

    def open(self, tp: TopicPartition, found: UnopenedLog) -> Log:
        """Open a recovered log.

        Raises:
            StorageError: its files cannot be opened.
        """
        log = Log(tp, found.path, self.settings.of(tp.topic), found.directory, found.state)
        self.logs.open[tp] = log
        return log
