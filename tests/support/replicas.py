"""A log in memory, and partitions made of it."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tests.support.clocks import Clock
from zkbroker.errors import ErrorCode, OffsetOutOfRange, ProtocolError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.log.epochs import LeaderEpochs
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.runtime.greenlets import GreenletsRuntime

T0 = TopicPartition("t", 0)


class PlainRuntime:
    """The locks, events and clock of a runtime, on threads; it spawns no tasks."""

    name = "plain"

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock_ms = self.now_ms = clock or Clock()

    def lock(self) -> Any:
        return threading.RLock()

    def event(self) -> Any:
        return threading.Event()


class SteppedRuntime(GreenletsRuntime):
    """Greenlets, and a clock that advances whenever it is read."""

    def __init__(self, step_ms: int = 0) -> None:
        self._now_ms, self._step_ms = 0, step_ms

    def clock_ms(self) -> int:
        self._now_ms += self._step_ms
        return self._now_ms


class MemoryEpochs(LeaderEpochs):
    """The real leader epochs, without a file."""

    def __init__(self) -> None:
        self._use([])

    def _save(self, epochs: list[tuple[int, int]], *, durable: bool = True) -> None:
        self._use(epochs)


@dataclass
class EntryLog:
    """A log of (leader epoch, value) entries; each appended byte is one entry."""

    entries: list[tuple[int, int]] = field(default_factory=list)
    log_start_offset: int = 0
    first_unstable_offset: int | None = None
    min_insync_replicas: int = 1
    flush_messages: int = 2**63 - 1
    recovery_point: int = 0
    broken: bool = False
    offline: str | None = None
    cleanup_policy: str = "delete"
    reads: list[int] = field(default_factory=list)
    flush_waits: list[float | None] = field(default_factory=list)
    epochs: MemoryEpochs = field(default_factory=MemoryEpochs)

    def last_stable_offset(self, high_watermark: int) -> int:
        first = self.first_unstable_offset
        return high_watermark if first is None else min(first, high_watermark)

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.entries)

    @property
    def config(self) -> Any:
        return SimpleNamespace(
            min_insync_replicas=self.min_insync_replicas,
            flush_messages=self.flush_messages,
            cleanup_policy=self.cleanup_policy,
        )

    @property
    def writer(self) -> Any:
        return SimpleNamespace(
            append_plain=lambda data, magics, leader_epoch: None, begin_epoch=self.begin_epoch
        )

    def begin_epoch(self, epoch: int, *, may_fall: bool = False) -> None:
        if self.broken:
            raise StorageError("broken")
        if epoch < self.epochs.latest and not may_fall:
            raise ProtocolError("old epoch", code=ErrorCode.FENCED_LEADER_EPOCH)
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, self.log_end_offset)
        if self.offline is not None:
            raise StorageError(self.offline)

    def append_as_leader(
        self, data: bytes, *, leader_epoch: int, now_ms: int | None = None, **given: Any
    ) -> Any:
        self.begin_epoch(leader_epoch)
        base = self.log_end_offset
        self.entries += [(leader_epoch, value) for value in bytes(data)]
        return SimpleNamespace(
            base_offset=base,
            last_offset=self.log_end_offset - 1,
            log_append_time_ms=-1,
            log_start_offset=self.log_start_offset,
            count=len(data),
            size_bytes=len(data),
            duplicate=False,
        )

    def append_as_follower(self, data: list[tuple[int, int]]) -> None:
        for epoch, value in data:
            self.begin_epoch(epoch)
            self.entries.append((epoch, value))

    def read(self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True) -> Any:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset}")
        self.reads.append(end)
        return SimpleNamespace(
            slice=None, log_start_offset=self.log_start_offset, values=self.values(offset, end)
        )

    def values(self, offset: int, end: int) -> bytes:
        start = self.log_start_offset
        return bytes(value for _, value in self.entries[offset - start : max(0, end - start)])

    def read_bytes(
        self, offset: int, max_bytes: int, *, end: int, min_one_entry: bool = True
    ) -> bytes:
        return self.values(offset, min(end, offset + max_bytes))

    def aborted_transactions(self, offset: int, found: Any) -> list[Any]:
        return []

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def truncate_to(self, offset: int) -> int:
        del self.entries[max(0, offset - self.log_start_offset) :]
        self.epochs.truncate_to(self.log_end_offset)
        return self.log_end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.entries.clear()
        self.epochs.clear()
        self.log_start_offset = offset

    def advance_start_to(self, offset: int) -> int:
        if offset > self.log_start_offset:
            del self.entries[: offset - self.log_start_offset]
            self.log_start_offset = offset
        return 0

    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None:
        self.flush_waits.append(timeout_s)


class Park:
    """Counts how often a request parked, and runs a function each time."""

    def __init__(self, then: Any = lambda: None) -> None:
        self.times = 0
        self._then = then

    @contextlib.contextmanager
    def __call__(self, wake: Any) -> Any:
        self.times += 1
        self._then()
        yield


def decided(
    leader: int,
    epoch: int,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    zk_version: int = 0,
    controller_epoch: int = 1,
    is_new: bool = False,
    key: TopicPartition = T0,
) -> LeaderAndIsrPartition:
    """Return a controller's decision for a partition, t-0 by default."""
    return LeaderAndIsrPartition(
        topic=key.topic,
        partition=key.partition,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=epoch,
        isr=list(isr),
        zk_version=zk_version,
        replicas=list(replicas),
        is_new=is_new,
    )


def make_partition(
    broker_id: int = 1,
    *,
    key: TopicPartition = T0,
    log: EntryLog | None = None,
    clock: Clock | None = None,
    high_watermark: int = 0,
    runtime: Any = None,
    **settings: Any,
) -> Partition:
    """Return a partition of a broker with a log in memory."""
    partition = Partition(
        key,
        broker_id,
        runtime=runtime or PlainRuntime(clock),
        settings=LeaderSettings(**settings),
    )
    partition.open(log or EntryLog(), high_watermark)  # type: ignore[arg-type]
    return partition
