"""What the log's tests share: message sets, managers over a temporary directory, readers."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.clocks import Clock
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import FileSystem, Log, LogManager, TopicPartition
from zkbroker.records import Codec, MessageSetBuilder, Record, iter_records, offset_after
from zkbroker.runtime import Park, Runtime, Task, unparked
from zkbroker.runtime.threads import ThreadsRuntime

TP = TopicPartition("my-topic", 0)


class UnsyncedFileSystem(FileSystem):
    """Does not wait for the disk: a test that does not cut the power needs no fsync."""

    def fsync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: Path) -> None:
        pass


class UnreplicatedLog:
    """A log as a coordinator uses it where there is one replica: waiting is for the disk alone."""

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


class InlineTask:
    """A task that is over when it was made."""

    alive = False

    def join(self, timeout_s: float | None = None) -> bool:
        return True


class EagerRuntime(ThreadsRuntime):
    """Runs what is spawned at once, so that a seed tells everything; background loops never run."""

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
    """Return a manager that was not started; its background tasks find nothing to do."""
    # Whoever wants logs compacted calls the cleaner; its task would do it amid any other test.
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


def crash(manager: LogManager) -> None:
    """Leave everything as a killed process would: files as they are, locks gone."""
    manager.abandon()


def read_all(log: Log, *, start: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Read a log to its end, as a consumer does."""
    offset = log.log_start_offset if start is None else start
    found: list[Record] = []
    while data := log.read_bytes(offset, max_bytes, end=log.log_end_offset):
        before = offset
        found += iter_records(data, start_offset=offset)
        # Past the last batch, whatever of it compaction left.
        offset = max(offset, offset_after(data) or 0)
        if offset == before:
            break
    return found
