"""Fetch: give readers what is stored, as it is stored, and wait for more where they ask to.

Invariant: a file slice that was read is part of the answer or closed here. Bytes are converted
only for a reader that is older than them: v0 and v1 read magic 0, v2 and v3 up to magic 1.
Followers read to the log's end, and what they ask for tells the leader how far they are: once, when
the fetch arrives, since whoever waits may be dead by the time it is woken. Consumers read to the
high watermark or the last stable offset.
"""

from zkbroker.broker.context import RequestContext
from zkbroker.broker.conversion import DownConversion
from zkbroker.broker.errors import error_code
from zkbroker.broker.fetch_sessions import FINAL_EPOCH, FetchSession, FetchSessions
from zkbroker.broker.handlers.fetch_reading import Asked, Reading
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import (
    ErrorCode,
    ProtocolError,
    UnsupportedCompressionType,
    UnsupportedVersion,
    ZkbrokerError,
)
from zkbroker.fileslice import FileSlice
from zkbroker.log import ReadResult
from zkbroker.log.segments.entries import walk
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol.messages import FetchRequest, FetchResponse
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchRequestPartition,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.records import Codec
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import NO_EPOCH
from zkbroker.replica.throttle import ReplicationThrottle, names_replica

MAX_RESPONSE_BYTES = 2**31 - 1 - 16 * 1024 * 1024
_COALESCE_S = 0.002
_LIMITED_SINCE = 3
_SESSIONS_SINCE = 7
_ZSTD_VERSION = 10

_READERS = {
    READ_UNCOMMITTED: ReadEnd.HIGH_WATERMARK,
    READ_COMMITTED: ReadEnd.LAST_STABLE,
}


def reader_of(isolation_level: int) -> ReadEnd:
    """Return how far a consumer sees.

    Raises:
        CloseConnection: there is no such isolation level, as genuine brokers answer it.
    """
    reader = _READERS.get(isolation_level)
    if reader is None:
        raise CloseConnection(f"there is no isolation level {isolation_level}")
    return reader


class FetchHandler:
    """Handles Fetch.

    Args:
        services: of the broker.
        throttle: of this broker as a leader; none by default.
    """

    def __init__(
        self,
        services: BrokerServices,
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        self._services = services
        self._throttle = throttle or ReplicationThrottle(services.runtime)
        config = services.config
        self.sessions = FetchSessions(
            config.fetch_session_slots, config.fetch_session_bytes, services.runtime
        )
        self._conversion = DownConversion(services.runtime.offload)

    def __call__(self, request: FetchRequest, context: RequestContext) -> FetchResponse:
        follower = request.replica_id
        session: FetchSession | None = None
        if follower >= 0 and context.api_version >= _SESSIONS_SINCE:
            session = self.sessions.session(request)
        elif request.session_epoch > 0:
            # Clients get no session: every answer to them says session id 0.
            raise ProtocolError(
                f"there is no fetch session {request.session_id}",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        reader = ReadEnd.LOG_END
        if follower < 0:
            # Also by other negative numbers than a consumer's -1, to which no broker answers.
            isolation = request.isolation_level
            reader = _READERS.get(isolation) or reader_of(isolation)
        asked = Asked(
            request,
            request.topics if session is None else session.topics(),
            context.api_version,
            reader,
            follower,
        )
        reading = self._read(asked, context, arriving=True)
        if (
            request.max_wait_ms > 0
            and reading.size < request.min_bytes
            and not self._enough(reading, request)
        ):
            reading = self._wait(asked, context, reading)
        if follower < 0:
            counts = self._services.metrics
            for topic, _, size in reading.sizes:
                (counts.topics.get(topic) or counts.topic(topic)).bytes_out += size
        else:
            self._count_replicated(reading, follower)
        if session is None:
            return FetchResponse(topics=reading.topics)
        incremental = request.session_epoch not in (0, FINAL_EPOCH)
        topics = session.answered(reading.topics, incremental=incremental)
        return FetchResponse(session_id=session.id, topics=topics)

    def _count_replicated(self, reading: Reading, follower: int) -> None:
        services = self._services
        for topic, number, size in reading.sizes:
            services.metrics.replication_bytes_out += size
            partition = services.replicas.get(topic, number)
            leading = None if partition is None else partition.leading
            if leading is not None and self._throttled(leading, follower):
                self._throttle.record(size)

    @staticmethod
    def _throttled(leadership: Leadership, follower: int) -> bool:
        """Whether a follower is to be held back while it is out of sync."""
        text = leadership.log.config.leader_throttled_replicas
        return (
            bool(text)
            and follower not in leadership.isr.members
            # The list names what is read from: the leader's own replica.
            and names_replica(text, leadership.key, leadership.leader)
        )

    def _enough(self, reading: Reading, request: FetchRequest) -> bool:
        return (
            reading.failed
            or reading.cut
            or reading.size >= request.min_bytes
            or not reading.leaderships
            or self._services.draining
        )

    def _wait(self, asked: Asked, context: RequestContext, reading: Reading) -> Reading:
        request = asked.request
        operation = DelayedOperation(self._services.runtime)
        deadline_ms = self._services.runtime.clock_ms() + request.max_wait_ms
        watched = [leadership.waiters for leadership in reading.leaderships]
        for waiters in watched:
            if asked.reader is ReadEnd.LOG_END:
                waiters.watch_appends(operation)
            else:
                waiters.watch_high_watermark(operation)
        # Others had their turn while many partitions were read: what came then woke no one.
        if len(watched) > 1 and reading.grown(asked.reader):
            operation.wake()
        try:
            with context.park(operation.wake):
                while True:
                    reading.close()
                    woken = operation.sleep(deadline_ms)
                    if not woken and asked.follower >= 0 and reading.refresh(asked.reader):
                        return reading
                    context.release_answer()
                    reading = self._read(asked, context)
                    if not woken or context.peer_gone or self._enough(reading, request):
                        return reading
                    # Small appends towards a large min_bytes are looked at together.
                    self._services.runtime.sleep(_COALESCE_S)
        finally:
            for waiters in watched:
                waiters.unwatch(operation)

    def _read(self, asked: Asked, context: RequestContext, *, arriving: bool = False) -> Reading:
        limited = asked.version >= _LIMITED_SINCE
        left = min(asked.request.max_bytes, MAX_RESPONSE_BYTES) if limited else MAX_RESPONSE_BYTES
        reading = Reading([], 0, [], False, [], [], arriving=arriving)
        try:
            named: dict[str, set[int]] = {}
            topics = asked.topics
            for topic in topics if len(topics) == 1 else context.paced(topics):
                seen = named.setdefault(topic.topic, set())
                partitions: list[FetchResponsePartition] = []
                reading.topics.append(FetchResponseTopic(topic.topic, partitions))
                wanted = topic.partitions
                for partition in wanted if len(wanted) == 1 else context.paced(wanted):
                    if partition.partition in seen:
                        continue
                    seen.add(partition.partition)
                    answer = self._read_partition(
                        asked,
                        topic.topic,
                        partition,
                        left - reading.size,
                        whole_entry=limited and reading.size == 0,
                        reading=reading,
                        context=context,
                    )
                    partitions.append(answer)
                    if answer.error_code:
                        reading.failed = True
        except BaseException:
            reading.close()
            raise
        return reading

    def _read_partition(
        self,
        asked: Asked,
        topic: str,
        wanted: FetchRequestPartition,
        left: int,
        *,
        whole_entry: bool,
        reading: Reading,
        context: RequestContext,
    ) -> FetchResponsePartition:
        number = wanted.partition
        services = self._services
        counts = None
        aborted: list[AbortedTransaction] | None = None
        try:
            partition = services.replicas.partitions.get((topic, number))
            if partition is None or topic in services.view.topics.deleting:
                partition = services.partition(topic, number, copying=asked.follower >= 0)
            counts = services.metrics.topics.get(topic) or services.metrics.topic(topic)
            counts.fetches += 1
            leadership, epoch = partition.leading, wanted.current_leader_epoch
            if leadership is None or epoch not in (NO_EPOCH, leadership.leader_epoch):
                leadership = partition.leadership(epoch)
            if wanted.max_bytes < 0:
                raise ProtocolError(
                    f"max_bytes={wanted.max_bytes}", code=ErrorCode.INVALID_FETCH_SIZE
                )
            limit = min(wanted.max_bytes, max(left, 0))
            if (
                asked.follower >= 0
                and self._throttle.exceeded
                and self._throttled(leadership, asked.follower)
            ):
                limit, whole_entry = 0, False
            read = leadership.read(
                wanted.fetch_offset, limit, reader=asked.reader, min_one_entry=whole_entry
            )
            reading.leaderships.append(leadership)
            reading.ends.append(
                read.log_end_offset
                if asked.reader is ReadEnd.LOG_END
                else read.high_watermark
                if asked.reader is ReadEnd.HIGH_WATERMARK
                else read.last_stable_offset
            )
            if asked.follower >= 0 and reading.arriving:
                # The position of a replica that is not assigned counts for nothing.
                try:
                    leadership.record_follower_fetch(
                        asked.follower,
                        wanted.fetch_offset,
                        wanted.log_start_offset,
                        read.log_end_offset,
                        epoch,
                    )
                except BaseException:
                    if read.found.slice is not None:
                        read.found.slice.close()
                    raise
            if read.aborted is not None:
                aborted = [
                    AbortedTransaction(each.producer_id, each.first_offset) for each in read.aborted
                ]
            records: FileSlice | bytes = b""
            part = read.found.slice
            if part is not None:
                records = part
                if asked.version < _ZSTD_VERSION:
                    records = self._older(
                        leadership, asked, wanted, read.found, part, reading, context
                    )
                size = records.size if isinstance(records, FileSlice) else len(records)
                reading.size += size
                if size:
                    reading.sizes.append((topic, number, size))
        except ZkbrokerError as error:
            if counts is not None:
                counts.failed_fetches += 1
            return FetchResponsePartition(number, error_code(error), records=b"")
        return FetchResponsePartition(
            number,
            ErrorCode.NONE,
            read.high_watermark,
            read.last_stable_offset,
            read.found.log_start_offset,
            aborted,
            records=records,
        )

    def _older(
        self,
        leadership: Leadership,
        asked: Asked,
        wanted: FetchRequestPartition,
        result: ReadResult,
        part: FileSlice,
        reading: Reading,
        context: RequestContext,
    ) -> FileSlice | bytes:
        """Return what a reader of an older version can read."""
        version = asked.version
        readable = 0 if version <= 1 else 1 if version <= 3 else 2
        try:
            too_new = readable < 2 and result.max_magic() > readable
            if not too_new and result.holds_zstd():
                part = self._without_zstd(part)
        except BaseException:
            part.close()
            raise
        if not too_new:
            return part
        part.close()
        if not leadership.log.config.message_downconversion_enable:
            raise UnsupportedVersion(
                f"fetch version {version} reads message format {readable}, and "
                f"message.downconversion.enable=false"
            )
        converted, cut = self._conversion.read(
            lambda at, limit: leadership.read_bytes(at, limit, reader=asked.reader),
            wanted.fetch_offset,
            part.size,
            readable,
            context,
        )
        reading.cut = reading.cut or cut
        return converted

    @staticmethod
    def _without_zstd(part: FileSlice) -> FileSlice:
        for position, entry in walk(part.fd, part.position, part.position + part.size):
            if entry.codec == Codec.ZSTD:
                if position == part.position:
                    raise UnsupportedCompressionType("zstd needs Fetch v10 or later")
                return FileSlice(part.fd, part.position, position - part.position, part.close)
        return part
