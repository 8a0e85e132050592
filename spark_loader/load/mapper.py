"""One mapper: reads its ranges, makes its files durable, then writes its offsets.

    read ─▶ files (durable, not yet named) ─▶ offsets file, published once ─▶ done

Invariant: a mapper is done once its offsets file exists, which names every file that counts.
    Attempts share only the name of that file, so retries and speculative copies do no harm: the
    first to publish wins and the others remove their files.

A failure that lies in the data (lost offsets, a damaged entry, a deleted topic, too many records in
quarantine) is an outcome, not an exception: another attempt would fail the same way, and other
mappers should finish. The mapper reads its other ranges again without the failed one. Any other
error is raised, and Spark retries the task.
"""

import json
import logging
import socket
import time
import uuid
from dataclasses import dataclass, field, replace

import pyarrow as pa

from spark_loader.errors import DamagedLog, DataLoss, QuarantineLimit
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import Gap, MapperOffsets
from spark_loader.lake.table_files import schema_to_text
from spark_loader.reading.access import Access
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.generations import find_generation
from spark_loader.reading.reader import NOT_LOADED
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.partition import MapperSink, SinkOptions
from spark_loader.storage.files import LakeFileSystem
from spark_loader.worker import settle
from zkbroker.errors import UnknownTopicOrPartition

logger = logging.getLogger(__name__)

_REPORT_EVERY_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class MapperTask:
    """Everything a worker needs; pickled into the task.

    Attributes:
        policies: what to do when offsets are out of range, for each of `ranges`.
        report_to: UDP address for progress, or None; nothing depends on it arriving.
    """

    run: int
    mapper: int
    ranges: tuple[OffsetRange, ...]
    policies: tuple[str, ...]
    output: str
    filesystem: LakeFileSystem
    access: Access
    connect: ConnectOptions
    sink: SinkOptions
    headers: bool = False
    keep_damaged: bool = False
    report_to: tuple[str, int] | None = None


Trouble = DataLoss | DamagedLog | QuarantineLimit


@dataclass(frozen=True, slots=True)
class MapperOutcome:
    """The result of a mapper: the rows it wrote, and why its other ranges could not be loaded."""

    mapper: int
    rows: int = 0
    troubles: tuple[Trouble, ...] = ()


@dataclass(slots=True)
class _Work:
    """What an attempt has written so far."""

    sink: MapperSink
    at: OffsetRange | None = None
    gaps: list[Gap] = field(default_factory=list)
    absent: list[Gap] = field(default_factory=list)


def run_mapper(task: MapperTask) -> MapperOutcome:
    """Run the task unless it is done.

    Raises:
        OSError, ProtocolError, …: another attempt may succeed; this one's files are removed.
    """
    settle()
    troubles: list[Trouble] = []
    while True:
        try:
            return MapperOutcome(task.mapper, _run(task), tuple(troubles))
        except QuarantineLimit as error:
            return MapperOutcome(task.mapper, troubles=(*troubles, error))
        except _RangeFailed as found:
            troubles.append(found.trouble)
            left = [
                (each, policy)
                for each, policy in zip(task.ranges, task.policies, strict=True)
                if each != found.at
            ]
            if not left:
                return MapperOutcome(task.mapper, troubles=tuple(troubles))
            ranges, policies = zip(*left, strict=True)
            task = replace(task, ranges=ranges, policies=policies)


class _RangeFailed(Exception):
    """A range cannot be loaded."""

    def __init__(self, at: OffsetRange, trouble: Trouble) -> None:
        super().__init__(str(trouble))
        self.at = at
        self.trouble = trouble


def _run(task: MapperTask) -> int:
    checkpoints = Checkpoints(task.filesystem, task.output)
    done = checkpoints.mapper_offsets(task.run, task.mapper)
    if done is not None:
        return done.rows
    token = f"{task.run:06d}-{task.mapper:05d}-{uuid.uuid4().hex[:8]}"
    staging = checkpoints.staging(task.run)
    work = _Work(MapperSink(task.filesystem, task.output, staging, token, task.sink))
    won = False
    try:
        _load(task, work)
        sink = work.sink
        offsets = MapperOffsets(
            run=task.run,
            mapper=task.mapper,
            attempt=token,
            ranges=task.ranges,
            tabled=tuple(sink.tabled),
            schema=schema_to_text(sink.schema),
            files=tuple(sink.files),
            quarantined=tuple(sink.quarantined),
            gaps=tuple(work.gaps),
            absent=tuple(work.absent),
            rows=sink.rows,
            value_bytes=sink.value_bytes,
        )
        won = checkpoints.write_mapper_offsets(offsets)
    except (UnknownTopicOrPartition, DataLoss, DamagedLog) as error:
        if work.at is None:
            raise
        if isinstance(error, UnknownTopicOrPartition):
            raise _RangeFailed(work.at, DataLoss(f"{work.at}: {error}")) from error
        raise _RangeFailed(work.at, error) from error
    finally:
        if not won and not _published(checkpoints, task, token):
            _discard(work)
    logger.info(
        "mapper done run=%d mapper=%d rows=%d files=%d counted=%s",
        task.run,
        task.mapper,
        offsets.rows,
        len(offsets.tabled) + len(offsets.files),
        won,
    )
    return offsets.rows


def _published(checkpoints: Checkpoints, task: MapperTask, token: str) -> bool:
    """Whether this attempt's offsets count although the write seemed to fail."""
    try:
        found = checkpoints.mapper_offsets(task.run, task.mapper)
    except OSError:
        # Unknown: the files stay, and the driver removes those that do not count.
        return True
    return found is not None and found.attempt == token


def _discard(work: _Work) -> None:
    try:
        work.sink.discard()
    except OSError as error:
        # No commit names them, and `vacuum` removes them.
        logger.warning("mapper left files behind error=%s", error)


def _load(task: MapperTask, work: _Work) -> None:
    report = _Reporter(task)
    fetcher = task.access.fetcher(task.connect)
    try:
        for wanted, policy in zip(task.ranges, task.policies, strict=True):
            reader = find_generation(task.connect.generation).reader(
                fetcher,
                fetch_bytes=task.connect.fetch_bytes,
                headers=task.headers,
                on_out_of_range=policy,
                keep_damaged=task.keep_damaged,
                verify_crc=task.connect.check_crcs,
                positions=True,
            )
            work.at = wanted
            work.sink.begin(wanted.source)
            for piece in reader.read(wanted):
                if isinstance(piece, pa.RecordBatch):
                    work.sink.write(piece)
                    report.add(piece.num_rows, piece.nbytes)
                elif isinstance(piece, DamagedEntry):
                    work.sink.add_damaged(piece)
                else:
                    (work.absent if piece.cause in NOT_LOADED else work.gaps).append(piece)
        work.sink.finish()
        report.close()
    finally:
        fetcher.close()


class _Reporter:
    """Sends counts to the driver's progress display; a lost datagram does no harm."""

    def __init__(self, task: MapperTask) -> None:
        self._task = task
        self._rows = 0
        self._bytes = 0
        self._next = time.monotonic() + _REPORT_EVERY_S
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if task.report_to else None

    def add(self, rows: int, size_bytes: int) -> None:
        self._rows += rows
        self._bytes += size_bytes
        if self._socket is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _REPORT_EVERY_S
            self._send(finished=False)

    def close(self) -> None:
        if self._socket is not None:
            self._send(finished=True)
            self._socket.close()

    def _send(self, *, finished: bool) -> None:
        assert self._socket is not None
        assert self._task.report_to is not None
        counts = [self._task.run, self._task.mapper, self._rows, self._bytes, finished]
        try:
            self._socket.sendto(json.dumps(counts).encode(), self._task.report_to)
        except OSError as error:
            logger.debug("progress not sent error=%s", error)
