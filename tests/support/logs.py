"""Shared by tests of logs: message sets, managers of a temporary directory, faults, readers."""

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.clocks import Clock
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import FileSystem, Log, LogManager, TopicPartition
from zkbroker.records import (
    Codec,
    MessageSetBuilder,
    Record,
    encode_message_set,
    iter_records,
    offset_after,
)
from zkbroker.runtime import Lock, Park, Runtime, Task, unparked
from zkbroker.runtime.threads import ThreadsRuntime

TP = TopicPartition("my-topic", 0)


class UnsyncedFileSystem(FileSystem):
    """Makes no fsync: only tests with power cuts need it."""

    def fsync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: Path) -> None:
        pass


class ScarceFileSystem(UnsyncedFileSystem):
    """Opens `left` more files (None: any number), and then is out of file descriptors.

    `written_ending` restricts this to files with that ending which are opened for writing.
    """

    def __init__(self, left: int | None = None, *, written_ending: str = "") -> None:
        self.left = left
        self.written_ending = written_ending
        self.open_fds: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        restricted = not self.written_ending or (
            str(path).endswith(self.written_ending) and flags & (os.O_WRONLY | os.O_RDWR)
        )
        if self.left is not None and restricted:
            if self.left == 0:
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            self.left -= 1
        fd = super().open(path, flags)
        self.open_fds.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self.open_fds.discard(fd)
        super().close(fd)


def _hooked(name: str) -> Callable[..., Any]:
    def call(self: "HookedFileSystem", *arguments: Any, **settings: Any) -> Any:
        self.before.get(name, lambda *_: None)(*arguments)
        return getattr(super(HookedFileSystem, self), name)(*arguments, **settings)

    return call


class HookedFileSystem(UnsyncedFileSystem):
    """Before a call, calls `before[its name]` with the same arguments: it watches, or raises."""

    def __init__(self, **before: Callable[..., object]) -> None:
        self.before = before

    open = _hooked("open")
    close = _hooked("close")
    write = _hooked("write")
    write_all = _hooked("write_all")
    truncate = _hooked("truncate")
    reserve = _hooked("reserve")
    fsync = _hooked("fsync")
    fsync_dir = _hooked("fsync_dir")
    rename = _hooked("rename")
    unlink = _hooked("unlink")
    mkdir = _hooked("mkdir")
    remove_tree = _hooked("remove_tree")


def failing(code: int) -> Callable[..., object]:
    """Return a hook that raises an error of the operating system."""

    def fail(*arguments: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fail


class UnreplicatedLog:
    """A coordinator's log with a single replica: an append waits only for the disk."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, data: bytearray, **more: Any) -> Any:
        return self._log.append_as_leader(data, leader_epoch=0, **more)

    def read_bytes(self, offset: int, max_bytes: int) -> bytes:
        return self._log.read_bytes(offset, max_bytes, end=self._log.log_end_offset)

    def wait_durable(
        self, last_offset: int, timeout_s: float | None = None, park: Park = unparked
    ) -> None:
        with park(lambda: None):
            self._log.wait_durable(last_offset, timeout_s)


class WaitedForLock:
    """A lock for which something else happens during the first wait: `meanwhile` is called."""

    def __init__(self, lock: Lock, meanwhile: Callable[[], object]) -> None:
        self._lock = lock
        self._meanwhile: Callable[[], object] | None = meanwhile

    def __enter__(self) -> object:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self._lock.__enter__()

    def __exit__(self, *error: Any) -> object:
        return self._lock.__exit__(*error)


class InlineTask:
    """A task that has already ended."""

    alive = False

    def join(self, timeout_s: float | None = None) -> bool:
        return True


class EagerRuntime(ThreadsRuntime):
    """Runs a spawned function at once, so that a seed decides all; no background loop runs."""

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Task:
        if not name.startswith("log-"):
            function(*args)
        return InlineTask()


def message_set(
    count: int,
    *,
    magic: int = 2,
    codec: Codec = Codec.NONE,
    size: int = 100,
    timestamp: int = 1_700_000_000_000,
    prefix: str = "v",
    **builder: Any,
) -> bytes:
    """Return a set of `count` messages; their values are `<prefix><i>` padded to `size`."""
    built = MessageSetBuilder(magic, codec, **builder)
    for index in range(count):
        value = f"{prefix}{index}".encode().ljust(size, b".")
        built.append(f"k{index}".encode(), value, timestamp + index)
    return built.build()


def append(log: Log, count: int, *, times: int = 1, epoch: int = 0, **settings: Any) -> Any:
    """Append a `message_set` of `count` messages as the leader; return the last result."""
    for _ in range(times):
        result = log.append_as_leader(message_set(count, **settings), leader_epoch=epoch)
    return result


def append_transactional(
    log: Log,
    sequence: int = 0,
    *,
    producer: int = 1,
    epoch: int = 0,
    count: int = 1,
    record: tuple[bytes | None, bytes, int, tuple[()]] = (None, b"x", 0, ()),
) -> Any:
    """Append a batch of a transaction that the coordinator verified."""
    verification = log.begin_verification(producer, epoch)
    data = encode_message_set(
        [record] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return log.append_as_leader(data, leader_epoch=0, verification=verification)


def end_transaction(
    log: Log, producer: int = 1, *, epoch: int = 0, commit: bool = True, coordinator_epoch: int = 0
) -> Any:
    """Append the marker that ends a producer's transaction."""
    return log.end_transaction(
        producer, epoch, commit=commit, coordinator_epoch=coordinator_epoch, leader_epoch=0
    )


def make_manager(
    *directories: Path,
    overrides: Mapping[str, Mapping[str, str]] | None = None,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    runtime: str | Runtime = "threads",
    manager: Mapping[str, Any] | None = None,
    open_limit: int = sys.maxsize,
    **log: Any,
) -> LogManager:
    """Return a manager that is not started; its background tasks find nothing to do."""
    # Tests of compaction call the cleaner; its own task would compact in the middle of other tests.
    settings = {"cleaner_enable": False, **(manager or {})}
    return LogManager(
        LogManagerConfig(log_dirs=tuple(map(str, directories)), **settings),
        LogConfig(**log),
        runtime=runtime,
        topic_overrides=overrides,
        now_ms=clock or Clock(),
        fs=fs or UnsyncedFileSystem(),
        open_limit=open_limit,
    )


@contextmanager
def started(*directories: Path, **settings: Any) -> Iterator[LogManager]:
    """Start a manager, and close it at the end."""
    manager = make_manager(*directories, **settings)
    manager.start()
    try:
        yield manager
    finally:
        manager.close()


def start_log(*directories: Path, **settings: Any) -> tuple[LogManager, Log]:
    """Start a manager which the test ends, with a log of `TP`."""
    manager = make_manager(*directories, **settings)
    manager.start()
    return manager, manager.get_or_create(TP)


@contextmanager
def started_log(*directories: Path, **settings: Any) -> Iterator[Log]:
    """Start a manager with a log of `TP`, and close it at the end."""
    with started(*directories, **settings) as manager:
        yield manager.get_or_create(TP)


@contextmanager
def reopened_log(*directories: Path, **settings: Any) -> Iterator[Log]:
    """Start a manager with a stored log of `TP`, and close it at the end."""
    with started(*directories, **settings) as manager:
        log = manager.get(TP)
        assert log is not None
        yield log


def crash(manager: LogManager) -> None:
    """Leave the directory as a killed process would: files as they are, locks gone."""
    manager.abandon()


def force_recovery(directory: Path) -> None:
    """Remove the mark of a clean stop and the recovery points: the next start scans every log."""
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()


def flip_bit(path: Path, position: int, mask: int = 1) -> None:
    """Change a byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def open_paths() -> list[str]:
    """Return the path of each file that this process has open; of a deleted one it says so."""
    return [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]


def read_all(log: Log, *, start: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Read a log to its end, as a consumer does."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while data := log.read_bytes(offset, max_bytes, end=log.log_end_offset):
        before = offset
        found += iter_records(data, start_offset=offset)
        # Continue after the last batch, of which compaction may have removed records.
        offset = max(offset, offset_after(data) or 0)
        if offset == before:
            break
    return found
