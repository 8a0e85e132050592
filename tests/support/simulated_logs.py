"""Logs in memory for simulated clusters, on disks that outlive the broker's process.

A record has an offset, the leader epoch of its append, and a number as its value. Written records
survive the end of the process; a power cut loses records that were not flushed. A disk has two
directories, of which one may fail: its logs refuse all operations until the broker restarts. The
leader epochs are kept by the real `zkbroker.log.epochs`; an `AppendObserver` checks appends.
"""

import random as random_module
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

from tests.support.simulated_time import SimRuntime
from zkbroker.errors import (
    ErrorCode,
    OffsetOutOfRange,
    ProtocolError,
    RequestTimedOut,
    StorageError,
)
from zkbroker.log import TopicPartition
from zkbroker.log.epochs import LeaderEpochs
from zkbroker.log.results import AppendResult, ReadResult

Record = tuple[int, int]
"""Leader epoch and value."""

_RECORD = struct.Struct(">qiq")
NEVER = 2**63 - 1
FLUSH_S = 0.2
CHECKPOINT_S = 2.0
DIRECTORIES = 2


def encode(first: int, records: Iterable[Record]) -> bytes:
    """Return records as they go over the network."""
    return b"".join(_RECORD.pack(first + at, *each) for at, each in enumerate(records))


def decode(data: bytes | memoryview) -> list[tuple[int, int, int]]:
    """Return (offset, leader epoch, value) of each complete record."""
    whole = len(data) - len(data) % _RECORD.size
    return list(_RECORD.iter_unpack(bytes(data[:whole])))


class Slice(bytes):
    """The bytes of a read, with the part of `FileSlice` that handlers use."""

    __slots__ = ()

    @property
    def size(self) -> int:
        return len(self)

    def close(self) -> None: ...


class AppendObserver(Protocol):
    """Is notified of appends and of broken logs."""

    def appended(self, key: TopicPartition, broker: int, epoch: int) -> object: ...

    def problem(self, text: str) -> object: ...


@dataclass
class StoredLog:
    """A partition's log on a disk; records before `durable` survive a power cut."""

    directory: int = 0
    records: list[Record] = field(default_factory=list)
    start: int = 0
    durable: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    stable_epochs: list[tuple[int, int]] = field(default_factory=list)
    """The leader epochs that survive a power cut."""

    @property
    def end(self) -> int:
        return self.start + len(self.records)


class Disk:
    """The disk of a broker.

    Attributes:
        broken: the unusable directory, or None.
        new: whether a directory is empty and has never belonged to this broker, which a real
            broker sees by the missing `meta.properties`.
        lost: the logs of a directory that was replaced by an empty one.
    """

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, StoredLog] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.broken: int | None = None
        self.new = False
        self.lost: dict[TopicPartition, StoredLog] = {}

    def records(self, key: TopicPartition) -> tuple[int, list[Record]] | None:
        """Return the start offset and the records of a partition's log; None without a log."""
        stored = self.logs.get(key)
        return None if stored is None else (stored.start, stored.records)

    def unusable(self, key: TopicPartition) -> bool:
        """Return whether a partition's log is or may be in the broken directory."""
        stored = self.logs.get(key)
        if self.broken is None:
            return False
        return stored is None or stored.directory == self.broken

    def repair(self, *, emptied: bool) -> None:
        """Repair the broken directory, or replace it by an empty one."""
        directory, self.broken = self.broken, None
        if emptied:
            self.new = True
            for key in [key for key, each in self.logs.items() if each.directory == directory]:
                self.lost[key] = self.logs.pop(key)
                self.high_watermarks.pop(key, None)

    def restore(self, *, except_topics: Collection[str]) -> None:
        """Restore the lost logs that the empty directory has not replaced.

        Partitions that still have no log never had one; the broker may create them empty.
        """
        for key, stored in self.lost.items():
            if key.topic not in except_topics:
                self.logs.setdefault(key, stored)
        self.lost.clear()
        self.new = False

    def flush(self) -> None:
        """Write back everything, as the operating system eventually does."""
        for stored in self.logs.values():
            stored.durable, stored.stable_epochs = stored.end, stored.epochs

    def cut_power(self, random: random_module.Random) -> None:
        """Lose all records that were not flushed, or some of them."""
        for stored in self.logs.values():
            end = random.choice((stored.durable, random.randint(stored.durable, stored.end)))
            del stored.records[end - stored.start :]
            # Recovery keeps an epoch that begins at the end, and reads the epochs that are missing
            # from the file out of the records.
            found = [each for each in stored.stable_epochs if each[1] <= end]
            for offset, (epoch, _) in enumerate(stored.records, stored.start):
                if epoch > (found[-1][0] if found else -1):
                    found.append((epoch, offset))
            stored.epochs = stored.stable_epochs = found


class StoredEpochs(LeaderEpochs):
    """The real leader epochs, stored on a simulated disk."""

    def __init__(self, stored: StoredLog) -> None:
        self._stored = stored
        self._use(list(stored.epochs))

    def _save(self, epochs: list[tuple[int, int]], *, durable: bool = True) -> None:
        self._use(epochs)
        self._stored.epochs = list(epochs)
        if durable:
            self._stored.stable_epochs = self._stored.epochs


class SimLog:
    """The part of `Log` that replication uses."""

    def __init__(self, logs: "SimLogs", key: TopicPartition, stored: StoredLog) -> None:
        self.offline: str | None = None
        self.topic_partition = key
        self.stored = stored
        self.config = logs.config
        self.epochs = StoredEpochs(stored)
        self._logs = logs
        self._flushing = False
        self._truncations = 0
        self._waiting: list[Any] = []

    def _require_online(self) -> None:
        if self.offline is not None:
            raise StorageError(self.offline)

    @property
    def log_start_offset(self) -> int:
        return self.stored.start

    @property
    def log_end_offset(self) -> int:
        return self.stored.end

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    @property
    def recovery_point(self) -> int:
        return self.stored.durable

    # -- appending

    @property
    def writer(self) -> "SimLog":
        """The object that appends; in a real `Log` it is a separate one."""
        return self

    def begin_epoch(self, epoch: int, *, may_fall: bool = False) -> None:
        self._require_online()
        if epoch < self.epochs.latest and not may_fall:
            raise ProtocolError("a later epoch is known", code=ErrorCode.FENCED_LEADER_EPOCH)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, self.log_end_offset, durable=False)
        self._require_online()

    def append_as_leader(
        self, data: bytes, *, leader_epoch: int, now_ms: int | None = None, **given: object
    ) -> AppendResult:
        self.begin_epoch(leader_epoch)
        self._logs.observer.appended(self.topic_partition, self._logs.broker_id, leader_epoch)
        base = self.log_end_offset
        self.stored.records += [(leader_epoch, value) for _, _, value in decode(data)]
        return self._written(base, len(data))

    def append_as_follower(self, data: bytes | memoryview) -> AppendResult:
        self._require_online()
        found = decode(data)
        base = self.log_end_offset
        if found and found[0][0] < base:
            raise ProtocolError("the first offset is below the end")
        for at, (offset, epoch, value) in enumerate(found):
            if offset != base + at:
                self._logs.observer.problem(
                    f"{self.topic_partition} at {self._logs.broker_id}: a gap before {offset}"
                )
            self.epochs.assign(epoch, offset, durable=False)
            self.stored.records.append((epoch, value))
        return self._written(base, len(found) * _RECORD.size)

    def _written(self, base: int, size: int) -> AppendResult:
        if self.stored.end - self.stored.durable >= self.config.flush_messages:
            self._start_flush()
        end = self.stored.end
        return AppendResult(base, end - 1, -1, self.stored.start, end - base, size)

    # -- reading

    def read(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> ReadResult:
        self._require_online()
        start, log_end = self.log_start_offset, self.log_end_offset
        if not start <= offset <= log_end:
            raise OffsetOutOfRange(f"offset {offset}", earliest=start, latest=log_end)
        count = max(int(min_one_entry), max_bytes // _RECORD.size)
        found = self.stored.records[offset - start : max(0, min(end, offset + count) - start)]
        return ReadResult(Slice(encode(offset, found)) if found else None, start)  # type: ignore[arg-type]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # -- truncating

    def truncate_to(self, offset: int) -> int:
        self._require_online()
        if offset >= self.log_end_offset:
            self.epochs.truncate_to(self.log_end_offset)
            return self.log_end_offset
        if offset <= self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
            return self.log_end_offset
        del self.stored.records[offset - self.stored.start :]
        self.epochs.truncate_to(offset)
        self._truncated(offset)
        return offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._require_online()
        self.stored.records.clear()
        self.stored.start = offset
        self.stored.durable = offset
        self.epochs.clear()
        self._truncated(offset)

    def advance_start_to(self, offset: int) -> int:
        self._require_online()
        if offset > self.stored.start:
            del self.stored.records[: offset - self.stored.start]
            self.stored.start = offset
            self.epochs.advance_start_to(offset)
            self.stored.durable = max(self.stored.durable, offset)
        return self.stored.start

    def _truncated(self, end: int) -> None:
        self._truncations += 1
        self.stored.durable = min(self.stored.durable, end)
        self._wake()

    # -- flushing

    def _start_flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        runtime, end, truncations = self._logs.runtime, self.stored.end, self._truncations
        epochs = self.stored.epochs

        def flushed() -> None:
            self._flushing = False
            if self.offline is not None:
                self._wake()
                return
            if truncations == self._truncations:
                self.stored.durable = max(self.stored.durable, end)
                known = {*epochs, *self.stored.stable_epochs}
                self.stored.stable_epochs = [each for each in self.stored.epochs if each in known]
            if self.stored.end - self.stored.durable >= self.config.flush_messages:
                self._start_flush()
            self._wake()

        clock = runtime.clock
        clock.at(clock.now + self._logs.random.uniform(0.0, FLUSH_S), runtime.process, flushed)

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None:
        target = last_offset + 2 - self.config.flush_messages
        truncations = self._truncations
        event = self._logs.runtime.event()
        self._waiting.append(event)
        try:
            while self.stored.durable < target:
                self._require_online()
                self._start_flush()
                event.clear()
                if not event.wait(timeout_s):
                    raise RequestTimedOut("not flushed")
                if truncations != self._truncations:
                    raise StorageError("the log was truncated meanwhile")
        finally:
            self._waiting.remove(event)


class SimLogs:
    """The part of `LogManager` that replication uses.

    Args:
        disk: the disk, with the logs of earlier processes.
        broker_id: the broker that owns it.
        runtime: the runtime of the broker's process.
        random: decides how long flushes take.
        observer: is notified of appends.
        min_insync_replicas: setting of every topic.
        flush_messages: setting of every topic.
    """

    def __init__(
        self,
        disk: Disk,
        broker_id: int,
        runtime: SimRuntime,
        random: random_module.Random,
        observer: AppendObserver,
        *,
        min_insync_replicas: int = 1,
        flush_messages: int = NEVER,
    ) -> None:
        self.disk = disk
        self.broker_id = broker_id
        self.runtime = runtime
        self.random = random
        self.observer = observer
        self.config: Any = SimpleNamespace(
            min_insync_replicas=min_insync_replicas,
            flush_messages=flush_messages,
            pinned_magic=None,
            cleanup_policy="delete",
            follower_throttled_replicas="",
            leader_throttled_replicas="",
        )
        self._offline_callbacks: list[Callable[..., object]] = []
        self._logs = {
            key: SimLog(self, key, stored)
            for key, stored in disk.logs.items()
            if stored.directory != disk.broken
        }

    def logs(self) -> dict[TopicPartition, SimLog]:
        return dict(self._logs)

    def get(self, key: TopicPartition) -> SimLog | None:
        return self._logs.get(key)

    def get_or_create(
        self,
        key: TopicPartition,
        overrides: Mapping[str, str] | None = None,
        *,
        is_new: bool = True,
    ) -> SimLog:
        if key not in self._logs:
            broken = self.disk.broken
            if broken is not None and not is_new:
                raise StorageError(f"{key} may be in a directory that could not be read")
            places = [each for each in range(DIRECTORIES) if each != broken]
            place = places[(len(key.topic) + key.partition) % len(places)]
            stored = self.disk.logs[key] = StoredLog(place)
            self.disk.high_watermarks.pop(key, None)
            self._logs[key] = SimLog(self, key, stored)
        return self._logs[key]

    def delete(self, key: TopicPartition) -> None:
        log = self._logs.get(key)
        if log is not None and log.offline is not None:
            raise StorageError(log.offline)
        if log is None and self.disk.broken is not None:
            raise StorageError(f"{key} may be in a directory that could not be read")
        self._logs.pop(key, None)
        self.disk.logs.pop(key, None)

    def fail(self, directory: int) -> None:
        """Let a directory fail now."""
        self.disk.broken = directory
        lost = [key for key, log in self._logs.items() if log.stored.directory == directory]
        for key in lost:
            self._logs[key].offline = f"directory {directory} failed"
        for callback in self._offline_callbacks:
            callback(str(directory), lost, "failed")

    def on_offline(self, callback: Callable[..., object]) -> None:
        self._offline_callbacks.append(callback)

    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        return dict(self.disk.high_watermarks)

    def use_high_watermarks(self, read: Callable[[], Mapping[TopicPartition, int]]) -> None:
        def checkpoint() -> None:
            while True:
                self.runtime.sleep(CHECKPOINT_S)
                self.disk.high_watermarks = dict(read())

        self.runtime.spawn(checkpoint, name="checkpoint")
