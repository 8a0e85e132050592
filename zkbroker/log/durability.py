"""What of a log is on stable storage, and how the rest gets there.

Invariant: `durable` is the end offset below which every message is on stable storage, with the name
of its file. `recovery_point` is at most that, and below it the indexes are stable too: what lies
before it is never verified again. Both only grow.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from zkbroker.log.context import LogContext
from zkbroker.log.flush import GroupCommit
from zkbroker.log.segment import Segment
from zkbroker.runtime import Lock


class Durability:
    """Flushes one log."""

    def __init__(
        self,
        context: LogContext,
        directory: Path,
        lock: Lock,
        active: Callable[[], tuple[int, Segment]],
        *,
        durable: int,
        unsynced: list[Segment],
        name: str,
    ) -> None:
        """Make one for a log that was opened.

        Args:
            context: the data directory.
            directory: of the log.
            lock: the log's own.
            active: returns the log end offset and the segment that is written, or raises
                StorageError when the log cannot be used.
            durable: end offset of what is on stable storage.
            unsynced: the segments before the active one that may not be.
            name: of the log, for the tasks.
        """
        self._context = context
        self._directory = directory
        self._lock = lock
        self._active = active
        self._unsynced = unsynced
        end, segment = active()
        # Whether its names are stable is not known of a log that was not flushed to its end.
        self._names_unsynced = durable < end or (not segment.size and not unsynced)
        self._since_ms = context.now_ms() if durable < end else None
        self._commit = GroupCommit(
            context.runtime,
            self.flush,
            usable=lambda: context.offline is None,
            durable=durable,
            name=f"flush-{name}",
        )

    @property
    def durable(self) -> int:
        """End offset of what is on stable storage."""
        return self._commit.durable

    @property
    def recovery_point(self) -> int:
        """Offset from which recovery must verify."""
        with self._lock:
            return min([self._commit.durable, *(each.base_offset for each in self._unsynced)])

    @property
    def unflushed_since_ms(self) -> int | None:
        """When the oldest message that is not on stable storage was written, None for none."""
        return self._since_ms

    def written(self, end: int, now_ms: int, at_most: int) -> None:
        """Note an append, and have the log flushed when `at_most` or more messages wait for it."""
        if self._since_ms is None:
            self._since_ms = now_ms
        if end - self._commit.durable >= at_most:
            self._commit.request(end)

    def wait(self, target: int, timeout_s: float | None) -> None:
        """Wait until everything below `target` is on stable storage.

        Raises:
            StorageError: it never will be.
            RequestTimedOut: not within `timeout_s`.
        """
        if self._commit.durable < target:
            self._commit.wait(target, timeout_s)

    def names_changed(self) -> None:
        """Note that a file was made that nothing points to yet but its name."""
        self._names_unsynced = True

    def rolled(self, segment: Segment) -> None:
        """Note that a segment is not written any more; its indexes are to be flushed too."""
        self._unsynced.append(segment)

    def request(self, end: int) -> None:
        """Have everything below `end` flushed; does not wait."""
        self._commit.request(end)

    def keep(self, segments: tuple[Segment, ...]) -> None:
        """Forget segments that left the log."""
        self._unsynced = [each for each in self._unsynced if each in segments]

    def fail(self, reason: str) -> None:
        """Fail everybody who waits and will wait."""
        self._commit.fail(self._context.error(reason))

    def flush(self) -> int:
        """Bring everything written so far to stable storage, off the event loop.

        Returns:
            The end offset that is on stable storage.

        Raises:
            StorageError: the disk failed; the data directory is offline now.
        """
        with ExitStack() as held:
            with self._lock:
                end, active = self._active()
                rolled, names_unsynced = list(self._unsynced), self._names_unsynced
                with self._context.storage():
                    fds = [self._hold(segment, held) for segment in (*rolled, active)]
                since, self._since_ms = self._since_ms, None
            try:
                started = time.monotonic()
                with self._context.storage():
                    self._context.runtime.offload(self._sync, fds, rolled, names_unsynced)
                self._context.flush_times.observe(time.monotonic() - started)
            except BaseException:
                if since is not None:
                    self._since_ms = since
                raise
        with self._lock:
            self._unsynced = [each for each in self._unsynced if each not in rolled]
            if names_unsynced:
                # A segment that was begun meanwhile has a name that was not there yet.
                self._names_unsynced = bool(self._unsynced)
        self._commit.advance(end)
        return end

    def _hold(self, segment: Segment, held: ExitStack) -> int:
        files = self._context.open_files.acquire(segment)
        held.callback(files.release)
        return files.fd

    def _sync(self, fds: list[int], rolled: list[Segment], names_unsynced: bool) -> None:
        for segment in rolled:
            segment.sync_indexes()
        for fd in fds:
            self._context.fs.fsync(fd)
        if names_unsynced:
            self._context.fs.fsync_dir(self._directory)
