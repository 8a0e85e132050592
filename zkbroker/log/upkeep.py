"""What is done for all logs from time to time: flushes, checkpoints, retention, deleted files.

Invariant: what lies in a directory that is offline is left alone.
"""

from functools import partial

from zkbroker.log.directory import DataDirectory, Offsets
from zkbroker.log.maintenance import apply_retention, flush_due
from zkbroker.log.managed import ManagedLogs
from zkbroker.measures import Histogram

_LONGEST_SLEEP_MS = 1000


class LogUpkeep(ManagedLogs):
    """The background work; the tasks call these in time, tests and tools when they want."""

    def flush_due(self, now_ms: int | None = None) -> int | None:
        """Flush the logs that are due; returns when the next one is (ms), None for none."""
        return flush_due(self._online_logs(), self._now_ms() if now_ms is None else now_ms)

    def checkpoint(self) -> None:
        """Write the recovery points, start offsets and high watermarks."""
        for directory in self._online():
            self._checkpoint(directory)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks down where they changed, each directory's to itself."""
        for directory in self._online():
            directory.save_high_watermarks(partial(self._marks_of, directory))

    def _marks_of(self, directory: DataDirectory) -> Offsets:
        marks = self.high_watermarks()
        # What could not be opened is as it was found.
        ends = {
            tp: found[2].log_end_offset
            for tp, found in self._unopened.items()
            if found[0] is directory
        } | {
            tp: log.log_end_offset for tp, log in self.logs().items() if log.directory is directory
        }
        return {tp: min(marks[tp], end) for tp, end in ends.items() if tp in marks}

    def _checkpoint(self, directory: DataDirectory) -> None:
        def read() -> tuple[Offsets, Offsets, Offsets]:
            logs = {tp: log for tp, log in self.logs().items() if log.directory is directory}
            # What could not be opened is as it was found.
            kept = {tp: found[2] for tp, found in self._unopened.items() if found[0] is directory}
            points = {tp: state.recovery_point for tp, state in kept.items()}
            starts = {tp: state.log_start_offset for tp, state in kept.items()}
            return (
                points | {tp: log.durability.recovery_start for tp, log in logs.items()},
                starts | {tp: log.log_start_offset for tp, log in logs.items()},
                self._marks_of(directory),
            )

        directory.write_checkpoints(read)

    def flush_times(self) -> dict[str, Histogram]:
        """Return how long flushes took, by data directory."""
        return {str(each.root): each.flush_times for each in self._directories}

    def run_retention(self, now_ms: int | None = None) -> int:
        """Delete what the logs' retention policies let go; returns how many segments.

        Only of topics whose own settings were told: by `topic_overrides`, `topic_settings`,
        `get_or_create` or `update_topic_config`; nothing behind a high watermark.
        """
        return apply_retention(self._deletable(), self._now_ms() if now_ms is None else now_ms)

    def _flush_in_time(self) -> float:
        following = self.flush_due()
        # A log that has nothing to flush now may get something that is due soon after.
        wait_ms = min(
            self._config.flush_scheduler_ms,
            _LONGEST_SLEEP_MS,
            *(log.config.flush_ms for log in self._online_logs()),
        )
        if following is not None:
            wait_ms = min(wait_ms, following - self._now_ms())
        return max(wait_ms, 1) / 1000

    def _maintain(self) -> float:
        now = self._now_ms()
        self.run_deletions(now)
        if now >= self._checkpoint_due_ms:
            self.checkpoint()
            self._checkpoint_due_ms = now + self._config.recovery_checkpoint_ms
        if now >= self._retention_due_ms:
            self.run_retention(now)
            for log in self._online_logs():
                log.producers.expire(now, self._config.producer_id_expiration_ms)
            self._retention_due_ms = now + self._config.retention_check_ms
        return _LONGEST_SLEEP_MS / 1000

    def run_deletions(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over; returns how many paths."""
        now = self._now_ms() if now_ms is None else now_ms
        return sum(directory.remove_discarded(now) for directory in self._online())
