"""Fetch: give readers what is stored, as it is stored, and wait for more where they ask to.

Invariant: a file slice that was read is part of the answer or closed here. Bytes are converted only
for a reader that is older than them: v0 and v1 read magic 0, v2 and v3 up to magic 1.
"""

import time
from dataclasses import dataclass

import gevent
import gevent.event

from zkbroker.broker.errors import error_code
from zkbroker.broker.hosting import Hosted
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import ErrorCode, ProtocolError, UnsupportedCompressionType, ZkbrokerError
from zkbroker.fileslice import FileSlice
from zkbroker.log import ReadResult
from zkbroker.log.entries import walk
from zkbroker.network.server import Session
from zkbroker.protocol import RequestHeader
from zkbroker.protocol.messages import FetchRequest, FetchResponse
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    AbortedTransaction,
    FetchRequestPartition,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.records import Codec, convert, iter_entries

MAX_RESPONSE_BYTES = 2**31 - 1 - 16 * 1024 * 1024
_OFFLOAD_BYTES = 32 * 1024
_COALESCE_S = 0.002
_ZSTD_VERSION = 10


@dataclass(slots=True)
class Reading:
    """One look at all partitions of a fetch.

    Args:
        topics: the answer so far.
        size: bytes of records in it.
        failed: whether a partition has an error.
        hosted: partitions that were read, to wait for.
        cut: whether there was more than memory to convert it in.
    """

    topics: list[FetchResponseTopic]
    size: int
    failed: bool
    hosted: list[Hosted]
    cut: bool = False

    def close(self) -> None:
        """Close the slices of a reading that is not answered."""
        for topic in self.topics:
            for partition in topic.partitions:
                if isinstance(partition.records, FileSlice):
                    partition.records.close()


class FetchHandler:
    """Handles Fetch."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(
        self, request: FetchRequest, header: RequestHeader, session: Session
    ) -> FetchResponse:
        if request.session_epoch > 0:
            # No session is ever given out: every answer says session id 0.
            raise ProtocolError(
                f"there is no fetch session {request.session_id}",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        version = header.api_version
        reading = self._read(request, version, session)
        if request.max_wait_ms > 0 and not self._enough(reading, request):
            reading = self._wait(request, version, session, reading)
        for topic in reading.topics:
            for partition in topic.partitions:
                size = _size(partition)
                if size:
                    self._services.metrics.topic(topic.topic).bytes_out += size
        return FetchResponse(topics=reading.topics)

    def _enough(self, reading: Reading, request: FetchRequest) -> bool:
        return (
            reading.failed
            or reading.cut
            or reading.size >= request.min_bytes
            or not reading.hosted
            or self._services.stopping()
        )

    def _wait(
        self, request: FetchRequest, version: int, session: Session, reading: Reading
    ) -> Reading:
        deadline = time.monotonic() + request.max_wait_ms / 1000
        changed = gevent.event.Event()
        waited_for = reading.hosted
        for hosted in waited_for:
            hosted.waiters.add(changed)
        try:
            with session.parked(changed.set):
                while True:
                    reading.close()
                    left_s = deadline - time.monotonic()
                    timed_out = left_s <= 0 or not changed.wait(left_s)
                    changed.clear()
                    reading = self._read(request, version, session)
                    if timed_out or session.peer_gone or self._enough(reading, request):
                        return reading
                    # Small appends towards a large min_bytes are looked at together.
                    gevent.sleep(_COALESCE_S)
        finally:
            for hosted in waited_for:
                hosted.waiters.discard(changed)

    def _read(self, request: FetchRequest, version: int, session: Session) -> Reading:
        left = min(request.max_bytes, MAX_RESPONSE_BYTES) if version >= 3 else MAX_RESPONSE_BYTES
        reading = Reading([], 0, False, [])
        session.release_answer()
        try:
            for topic in request.topics:
                partitions: list[FetchResponsePartition] = []
                reading.topics.append(FetchResponseTopic(topic.topic, partitions))
                for partition in topic.partitions:
                    answer = self._read_partition(
                        topic.topic,
                        partition,
                        version,
                        left - reading.size,
                        whole_entry=version >= 3 and reading.size == 0,
                        committed=request.isolation_level == READ_COMMITTED,
                        reading=reading,
                        session=session,
                    )
                    partitions.append(answer)
                    reading.size += _size(answer)
                    if answer.error_code:
                        reading.failed = True
        except BaseException:
            reading.close()
            raise
        return reading

    def _read_partition(
        self,
        topic: str,
        partition: FetchRequestPartition,
        version: int,
        left: int,
        *,
        whole_entry: bool,
        committed: bool,
        reading: Reading,
        session: Session,
    ) -> FetchResponsePartition:
        number = partition.partition
        services = self._services
        hosted: Hosted | None = None
        aborted: list[AbortedTransaction] | None = [] if committed else None
        try:
            hosted = services.hosting.get(topic, number)
            if hosted is None or partition.current_leader_epoch >= 0:
                hosted = services.hosted(topic, number, partition.current_leader_epoch)
            hosted.metrics.fetches += 1
            if partition.max_bytes < 0:
                raise ProtocolError(
                    f"max_bytes={partition.max_bytes}", code=ErrorCode.INVALID_FETCH_SIZE
                )
            reading.hosted.append(hosted)
            limit = min(partition.max_bytes, max(left, 0))
            log = hosted.log
            result = log.read(
                partition.fetch_offset, limit, min_one_entry=whole_entry, committed=committed
            )
            if committed:
                aborted = [
                    AbortedTransaction(each.producer_id, each.first_offset)
                    for each in log.aborted_transactions(partition.fetch_offset, result)
                ]
            records = self._records(hosted, partition, version, result, reading, session)
        except ZkbrokerError as error:
            if hosted is not None:
                hosted.metrics.failed_fetches += 1
            return FetchResponsePartition(number, error_code(error), records=b"")
        return FetchResponsePartition(
            number,
            0,
            result.high_watermark,
            min(result.high_watermark, log.last_stable_offset),
            result.log_start_offset,
            aborted,
            records,
        )

    def _records(
        self,
        hosted: Hosted,
        partition: FetchRequestPartition,
        version: int,
        result: ReadResult,
        reading: Reading,
        session: Session,
    ) -> FileSlice | bytes:
        part = result.slice
        if part is None:
            return b""
        readable = 0 if version <= 1 else 1 if version <= 3 else 2
        try:
            too_new = readable < 2 and result.max_magic() > readable
            if not too_new and version < _ZSTD_VERSION and result.holds_zstd():
                part = self._without_zstd(part)
        except BaseException:
            part.close()
            raise
        if not too_new:
            return part
        part.close()
        # What is converted stands in memory until its reader has taken it.
        limit = session.reserve_answer(part.size)
        reading.cut = reading.cut or limit < part.size
        return self._converted(hosted, partition.fetch_offset, limit, readable)

    def _converted(self, hosted: Hosted, offset: int, limit: int, magic: int) -> bytes:
        at = offset
        while True:
            # An entry that is cut cannot be converted; its converted messages go out whole.
            data = hosted.log.read_bytes(at, limit, min_one_entry=True)
            if len(data) < _OFFLOAD_BYTES:
                converted = convert(data, magic, first_offset=offset)
            else:
                converted = self._services.runtime.offload(_convert, data, magic, offset)
            if converted or not data:
                return converted
            # Nothing of it is for this reader (control batches): without what comes after it, the
            # reader would ask for the same offset for ever.
            at = max(entry.last_offset for entry in iter_entries(data)) + 1

    @staticmethod
    def _without_zstd(part: FileSlice) -> FileSlice:
        for position, entry in walk(part.fd, part.position, part.position + part.size):
            if entry.codec == Codec.ZSTD:
                if position == part.position:
                    raise UnsupportedCompressionType("zstd needs Fetch v10 or later")
                return FileSlice(part.fd, part.position, position - part.position, part.release)
        return part


def _convert(data: bytes, magic: int, offset: int) -> bytes:
    return convert(data, magic, first_offset=offset)


def _size(partition: FetchResponsePartition) -> int:
    records = partition.records
    return 0 if records is None else len(records)
