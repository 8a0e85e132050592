"""Real logs in a simulated cluster, on a file system that loses unflushed data in a power cut.

`RealDisk` and `RealLogs` replace `Disk` and `SimLogs`: the real `LogManager` with its tasks on the
virtual clock and its files in a directory of the machine, under a `PowerCutFileSystem`. Records are
batches of the real format; their values are the simulated numbers.
"""

import os
import random as random_module
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.support.powercut import PowerCutFileSystem
from tests.support.simulated_logs import NEVER, AppendObserver, Record
from tests.support.simulated_time import SimRuntime
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.checkpoints import read_offsets
from zkbroker.log.names import LOG, START_OFFSETS
from zkbroker.records import MessageSetBuilder, iter_entries, iter_records

TIMESTAMP = 1_500_000_000_000


def encode_values(values: Iterable[int]) -> bytearray:
    """Return the one batch that a producer sends."""
    builder = MessageSetBuilder(2)
    for value in values:
        builder.append(None, b"%d" % value, TIMESTAMP)
    return bytearray(builder.build(0))


def decode_batches(data: bytes) -> list[tuple[int, int, int]]:
    """Return (offset, leader epoch, value) of each record of whole batches."""
    found = []
    for entry in iter_entries(data):
        batch = data[entry.position : entry.position + entry.size]
        found += [
            (record.offset, entry.partition_leader_epoch, int(record.value or b"-1"))
            for record in iter_records(batch)
        ]
    return found


class RealDisk:
    """The disk of a broker: a directory whose unflushed data a power cut loses."""

    broken: int | None = None
    new = False

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._seed = seed
        self._cuts = 0
        self.lost: dict[TopicPartition, Any] = {}
        self.fs = self._file_system()
        self._known: dict[Path, tuple[tuple[int, int], list[tuple[int, int, int]]]] = {}

    def _file_system(self) -> PowerCutFileSystem:
        self.directory.mkdir(parents=True, exist_ok=True)
        target = self._root / f"{self._cuts + 1}"
        fs = PowerCutFileSystem(self.directory, target, self._seed + self._cuts)
        fs.adopt()
        return fs

    @property
    def directory(self) -> Path:
        return self._root / f"{self._cuts}"

    def unusable(self, key: TopicPartition) -> bool:
        return False

    def records(self, key: TopicPartition) -> tuple[int, list[Record]] | None:
        """Return the start offset and the records of a partition's log; None without a log."""
        path = self.directory / str(key)
        if not path.is_dir():
            return None
        # Records that were deleted by offset may still be in the first file.
        start = read_offsets(self.directory / START_OFFSETS).get(key, 0)
        found: list[tuple[int, int, int]] = []
        for file in sorted(path.glob(f"*{LOG}")):
            found += [each for each in self._records_of(file) if each[0] >= start]
        begins = found[0][0] if found else start
        return begins, [(epoch, value) for _, epoch, value in found]

    def _records_of(self, file: Path) -> list[tuple[int, int, int]]:
        stat = file.stat()
        version = (stat.st_mtime_ns, stat.st_size)
        known = self._known.get(file)
        if known is None or known[0] != version:
            known = self._known[file] = (version, decode_batches(file.read_bytes()))
        return known[1]

    def flush(self) -> None:
        """Write back everything, as the operating system eventually does."""
        self.fs.write_back()

    def cut_power(self, random: random_module.Random) -> None:
        """Lose all data that was not flushed, or some of it."""
        self.fs.cut()
        self.end_process()
        self._cuts += 1
        self.fs = self._file_system()

    def end_process(self) -> None:
        """Close the open files of a dead process."""
        self.fs.close_open()
        self.fs.close_all()


class RealRuntime(SimRuntime):
    """The runtime of a process that recovers its logs before its first task."""

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Any:
        if name.startswith("recover-"):
            function(*args)
            return _Done()
        return super().spawn(function, *args, name=name)


class _Done:
    alive = False

    def join(self, timeout_s: float | None = None) -> bool:
        return True


class RealLogs(LogManager):
    """The real manager, with the interface of `SimLogs`."""

    def __init__(
        self,
        disk: RealDisk,
        broker_id: int,
        runtime: SimRuntime,
        random: random_module.Random,
        observer: AppendObserver,
        *,
        now_ms: Callable[[], int],
        min_insync_replicas: int = 1,
        flush_messages: int = NEVER,
    ) -> None:
        super().__init__(
            LogManagerConfig(log_dirs=(str(disk.directory),), cleaner_enable=False),
            LogConfig(
                min_insync_replicas=min_insync_replicas,
                flush_messages=flush_messages,
                retention_ms=-1,
                segment_bytes=2048,
                # Indexes are pre-allocated, and a power cut copies every file.
                index_max_bytes=4096,
            ),
            runtime=RealRuntime(runtime.clock, runtime.process),  # type: ignore[arg-type]
            topic_overrides={},
            now_ms=now_ms,
            fs=disk.fs,
        )
        self.start(broker_id=broker_id)
        self.runtime = runtime

    def release(self) -> None:
        """Release the directory locks, as the end of a process does."""
        for directory in self._directories.all:
            directory.close()


def materialise(response: Any) -> Any:
    """Replace slices of files by their bytes, as a socket does."""
    for topic in getattr(response, "topics", ()):
        for each in topic.partitions:
            found = getattr(each, "records", None)
            if hasattr(found, "fd"):
                each.records = os.pread(found.fd, found.size, found.position)
                found.close()
    return response
