"""Durability of one log: the part that is on stable storage, and group commit of the rest.

Invariant: `durable` is the end offset below which every message is on stable storage, with the
name of its file. `recovery_point` is at most that, and the indexes below it are stable as well:
recovery verifies nothing below it. Both only grow, except in a truncation. Waiters that come while
an fsync runs share the next one. A failed fsync is never retried: it fails every waiter, for good.
"""

import contextlib
import itertools
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from zkbroker.errors import RequestTimedOut, StorageError
from zkbroker.log import names
from zkbroker.log.directory import DataDirectory
from zkbroker.log.results import LogState
from zkbroker.log.segments.segment import Segment
from zkbroker.runtime import Event


@dataclass(slots=True)
class _Waiter:
    target: int
    event: Event
    failure: StorageError | None = None


class Durability:
    """Flushes one log; the log reports each of its changes here."""

    def __init__(self, directory: DataDirectory, path: Path, state: LogState) -> None:
        """Make the object for an opened log; `state` is the result of its recovery."""
        end, durable = state.log_end_offset, state.recovery_point
        active = state.segments[-1]
        unsynced = [
            segment
            for segment, following in itertools.pairwise(state.segments)
            if following.base_offset > durable
        ]
        self._directory = directory
        self._path = path
        self._lock = directory.runtime.lock()
        self._end = end
        self._active = active
        self._unsynced = unsynced
        # If the log was not flushed to its end, its file names may not be stable.
        self._names_changes = int(durable < end or (not active.size and not unsynced))
        # How many of these changes are stable. Flushes may overlap: each counts those it includes.
        self._names_stable = 0
        self.unflushed_since_ms = directory.now_ms() if durable < end else None
        """When the oldest unflushed message was written, None if there is none."""
        self._truncations = 0
        self._waiters: list[_Waiter] = []
        self._wanted = durable
        self._flushing = False
        self._failure: StorageError | None = None
        self._finished = False
        self.durable = durable
        """End offset of the messages on stable storage."""

    @property
    def recovery_point(self) -> int:
        """Offset from which recovery must verify."""
        with self._lock:
            return min([self.durable, *(each.base_offset for each in self._unsynced)])

    @property
    def recovery_start(self) -> int:
        """The recovery point as a checkpoint stores it.

        It never goes past the base offset of the active segment: recovery reads that segment as a
        whole anyway, and its indexes are not stable while it is written. A recovery point at its
        end would be taken for the start of the next segment as soon as there is one.
        """
        point = self.recovery_point
        return point if self._finished else min(point, self._active.base_offset)

    # Changes of the log

    def written(self, end: int, now_ms: int, at_most: int) -> None:
        """Record an append, and request a flush when `at_most` or more messages are unflushed."""
        self._end = end
        if self.unflushed_since_ms is None:
            self.unflushed_since_ms = now_ms
        if end - self.durable >= at_most:
            self.request(end)

    def names_changed(self) -> None:
        """Record that a file was created or replaced, whose name in the directory is unsynced."""
        self._names_changes += 1

    def rolled(self, active: Segment) -> None:
        """Record a new active segment; the previous one is not flushed to its end yet."""
        with self._lock:
            self._unsynced.append(self._active)
            self._active = active

    def finished(self) -> None:
        """Record that the active segment is complete: its indexes must be flushed as well."""
        with self._lock:
            self._unsynced.append(self._active)
            self._names_changes += 1
            self._finished = True

    def keep(self, segments: tuple[Segment, ...]) -> None:
        """Forget segments that are no longer in the log."""
        with self._lock:
            self._unsynced = [each for each in self._unsynced if each in segments]

    def lower(self, end: int) -> None:
        """Count nothing at or after an offset as stable any more: it is about to be truncated."""
        with self._lock:
            self._truncations += 1
            self.durable = min(self.durable, end)

    def truncated(self, end: int, segments: tuple[Segment, ...]) -> None:
        """Record a truncation; the last of `segments` is the active one now."""
        with self._lock:
            self._truncations += 1
            self._end = end
            self._active = segments[-1]
            self._unsynced = [each for each in self._unsynced if each in segments[:-1]]
            self.durable = min(self.durable, end)
            self._wanted = min(self._wanted, end)
            self._names_changes += 1
            lost = [each for each in self._waiters if each.target > end]
            self._waiters = [each for each in self._waiters if each.target <= end]
        _wake(lost, StorageError(f"{self._path.name} was truncated to offset {end}"))

    def fail(self, reason: str) -> None:
        """Fail all waiters, now and later."""
        self._fail(self._directory.error(reason))

    # Flushing

    def request(self, end: int) -> None:
        """Request a flush of everything below `end`; does not wait."""
        with self._lock:
            self._wanted = max(self._wanted, end)
            if self._flushing or self._failure is not None or self.durable >= end:
                return
            self._flushing = True
        self._directory.runtime.spawn(self._flush_wanted, name=f"flush-{self._path.name}")

    def wait(self, target: int, timeout_s: float | None) -> None:
        """Wait until everything below `target` is on stable storage.

        Raises:
            StorageError: it never will be.
            RequestTimedOut: it was not within `timeout_s`.
        """
        if self.durable >= target:
            return
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self.durable >= target:
                # A flush that ends now has woken its waiters: it would leave this one behind.
                return
            waiter = _Waiter(target, self._directory.runtime.event())
            self._waiters.append(waiter)
        self.request(target)
        if not waiter.event.wait(timeout_s):
            raise RequestTimedOut(f"not on disk within {timeout_s} s")
        if waiter.failure is not None:
            raise waiter.failure

    def flush(self) -> int:
        """See `Log.flush`."""
        directory = self._directory
        with ExitStack() as held:
            with self._lock:
                if self._failure is not None:
                    raise self._failure
                if directory.offline is not None:
                    raise directory.error(directory.offline)
                # The next append sets the time again, whether or not this flush covers it.
                since, self.unflushed_since_ms = self.unflushed_since_ms, None
                end, truncations = self._end, self._truncations
                rolled, names_changes = list(self._unsynced), self._names_changes
                names_unsynced = names_changes > self._names_stable
                segments = [each for each in rolled if each is not self._active]
                try:
                    with directory.storage():
                        fds = [self._hold(each, held) for each in (*segments, self._active)]
                except StorageError:
                    if since is not None:
                        self.unflushed_since_ms = since
                    raise
            try:
                started = time.monotonic()
                with directory.storage():
                    directory.runtime.offload(self._sync, fds, rolled, names_unsynced)
                directory.flush_times.observe(time.monotonic() - started)
            except BaseException:
                if since is not None:
                    self.unflushed_since_ms = since
                raise
        with self._lock:
            self._unsynced = [each for each in self._unsynced if each not in rolled]
            self._names_stable = max(self._names_stable, names_changes)
            # The name of a segment that was begun meanwhile is not synced yet.
            self._names_changes += bool(self._unsynced)
            if truncations != self._truncations:
                # Flushed messages may have been truncated meanwhile.
                return self.durable
            self.durable = max(self.durable, end)
            reached = [each for each in self._waiters if each.target <= self.durable]
            self._waiters = [each for each in self._waiters if each.target > self.durable]
        for waiter in reached:
            waiter.event.set()
        return end

    def _hold(self, segment: Segment, held: ExitStack) -> int:
        files = self._directory.open_files.acquire(segment)
        held.callback(files.release)
        return files.fd

    def _sync(self, fds: list[int], rolled: list[Segment], names_unsynced: bool) -> None:
        for segment in rolled:
            self._sync_indexes(segment)
        for fd in fds:
            self._directory.fs.fsync(fd)
        if names_unsynced:
            self._directory.fs.fsync_dir(self._path)

    def _sync_indexes(self, segment: Segment) -> None:
        fs = self._directory.fs
        for suffix in names.INDEX_SUFFIXES:
            # The index of a segment that has left the log meanwhile need not be stable.
            with contextlib.suppress(FileNotFoundError):
                fd = fs.open(segment.path(suffix), os.O_RDONLY)
                try:
                    fs.fsync(fd)
                finally:
                    fs.close(fd)

    def _flush_wanted(self) -> None:
        while True:
            try:
                self.flush()
            except StorageError as error:
                if self._directory.offline is not None:
                    self._fail(error)
                    return
                # The disk was not involved, so only the waiters of this flush fail.
                with self._lock:
                    self._flushing = False
                    self._wanted = self.durable
                    waiters, self._waiters = self._waiters, []
                _wake(waiters, error)
                return
            except BaseException as error:
                # Without this, the waiters would wait for ever.
                self._fail(StorageError(f"the flush ended with {error!r}"))
                raise
            with self._lock:
                self._flushing = self._failure is None and self._wanted > self.durable
                if not self._flushing:
                    return

    def _fail(self, error: StorageError) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = error
            waiters, self._waiters = self._waiters, []
        _wake(waiters, error)


def _wake(waiters: list[_Waiter], failure: StorageError) -> None:
    for waiter in waiters:
        waiter.failure = failure
        waiter.event.set()
