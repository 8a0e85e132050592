"""Fetch: returns stored bytes unchanged to readers, and waits for more if they ask to.

Invariant: a file slice that was read is part of the answer or closed here. Bytes are converted only
for readers of older formats: v0 and v1 read magic 0, v2 and v3 up to magic 1.
Followers read to the log end. Their fetch offset is their progress, which the leader records when
the fetch arrives, since a follower may die while its fetch waits. Consumers read to the high
watermark or the last stable offset.
"""

from zkbroker.broker.context import RequestContext
from zkbroker.broker.conversion import EVERYTHING_SINCE, DownConversion
from zkbroker.broker.errors import partition_error_code
from zkbroker.broker.fetch_sessions import FINAL_EPOCH, FetchSession, FetchSessions
from zkbroker.broker.handlers.fetch_reading import Answers, Asked, Reading
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchRequest, FetchResponse
from zkbroker.protocol.messages.fetch import (
    COMPARES_REPLICAS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.protocol.plain import FetchAnswerRow, FetchRow, PlainFetch
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import NO_EPOCH, Role
from zkbroker.replica.throttle import ReplicationThrottle, names_replica

MAX_RESPONSE_BYTES = 2**31 - 1 - 16 * 1024 * 1024
_COALESCE_S = 0.002
_LIMITED_SINCE = 3
_SESSIONS_SINCE = 7

_READERS = {
    READ_UNCOMMITTED: ReadEnd.HIGH_WATERMARK,
    READ_COMMITTED: ReadEnd.LAST_STABLE,
}


def reader_of(isolation_level: int) -> ReadEnd:
    """Return how far a consumer sees.

    Raises:
        CloseConnection: there is no such isolation level; genuine brokers also close.
    """
    reader = _READERS.get(isolation_level)
    if reader is None:
        raise CloseConnection(f"there is no isolation level {isolation_level}")
    return reader


class FetchHandler:
    """Handles Fetch; the throttle is that of this broker as a leader, none by default."""

    def __init__(
        self, services: BrokerServices, throttle: ReplicationThrottle | None = None
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
            # Clients get no sessions: every answer to them has session id 0.
            raise ProtocolError(
                f"there is no fetch session {request.session_id}",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        wanted = [
            (
                topic.topic,
                [
                    (
                        *(each.partition, each.current_leader_epoch, each.fetch_offset),
                        *(each.log_start_offset, each.max_bytes),
                    )
                    for each in context.paced(topic.partitions)
                ],
            )
            for topic in (request.topics if session is None else session.topics())
        ]
        answers = self.read(
            (
                *(1, context.api_version, 0, None, follower),
                *(request.max_wait_ms, request.min_bytes, request.max_bytes),
                *(request.isolation_level, request.session_id, request.session_epoch, wanted),
            ),
            context,
        )
        topics = [
            FetchResponseTopic(topic, [_partition(row) for row in rows]) for topic, rows in answers
        ]
        if session is None:
            return FetchResponse(topics=topics)
        incremental = request.session_epoch not in (0, FINAL_EPOCH)
        topics = session.answered(topics, incremental=incremental)
        return FetchResponse(session_id=session.id, topics=topics)

    def read(self, request: PlainFetch, context: RequestContext) -> Answers:
        """Read the requested partitions, and wait for more data if the request asks to.

        Raises:
            CloseConnection: there is no such isolation level, or the client has disconnected.
        """
        _, version, _, _, follower, max_wait_ms, min_bytes, max_bytes, isolation, _, _, topics = (
            request
        )
        reader = ReadEnd.LOG_END
        if follower < 0:
            # Negative replica ids other than a consumer's -1 also mean a client.
            reader = _READERS.get(isolation) or reader_of(isolation)
        asked = Asked(version, follower, reader, min_bytes, max_bytes, topics)
        reading = self._read(asked, context, arriving=True)
        if max_wait_ms > 0 and reading.size < min_bytes and not self._enough(reading, min_bytes):
            reading = self._wait(asked, max_wait_ms, context, reading)
        if follower < 0:
            counts = self._services.metrics
            for topic, _, size in reading.sizes:
                (counts.topics.get(topic) or counts.topic(topic)).bytes_out += size
        else:
            self._count_replicated(reading, follower)
        return reading.topics

    def _count_replicated(self, reading: Reading, follower: int) -> None:
        services = self._services
        for topic, number, size in reading.sizes:
            services.metrics.replication_bytes_out += size
            partition = services.replicas.get(topic, number)
            leading = None if partition is None else partition.leading
            if leading is not None and self._throttled(leading, follower):
                self._throttle.record(size)

    @staticmethod
    def _throttled(leadership: Role, follower: int) -> bool:
        """Whether a follower is throttled while it is out of sync."""
        assert isinstance(leadership, Leadership)
        text = leadership.log.config.leader_throttled_replicas
        return (
            bool(text)
            and follower not in leadership.isr.members
            # The setting names the replica that is read: the leader's own.
            and names_replica(text, leadership.key, leadership.leader)
        )

    def _enough(self, reading: Reading, min_bytes: int) -> bool:
        return (
            reading.failed
            or reading.cut
            or reading.size >= min_bytes
            or not reading.roles
            or self._services.draining
        )

    def _wait(
        self, asked: Asked, max_wait_ms: int, context: RequestContext, reading: Reading
    ) -> Reading:
        operation = DelayedOperation(self._services.runtime)
        deadline_ms = self._services.runtime.clock_ms() + max_wait_ms
        watched = [role.waiters for role in reading.roles]
        for waiters in watched:
            if asked.reader is ReadEnd.LOG_END:
                waiters.watch_appends(operation)
            else:
                waiters.watch_high_watermark(operation)
        # Other tasks ran while many partitions were read, or one was converted: their appends woke
        # no operation of this request.
        if reading.grown(asked.reader):
            operation.wake()
        try:
            with context.park(operation.wake):
                while True:
                    reading.close()
                    woken = operation.sleep(deadline_ms)
                    if not woken and asked.follower >= 0 and reading.refresh(asked.reader):
                        return reading
                    context.session.release_answer()
                    reading = self._read(asked, context)
                    if not woken or context.peer_gone or self._enough(reading, asked.min_bytes):
                        return reading
                    # Let several small appends add up before checking a large min_bytes again.
                    self._services.runtime.sleep(_COALESCE_S)
        finally:
            for waiters in watched:
                waiters.unwatch(operation)

    def _read(self, asked: Asked, context: RequestContext, *, arriving: bool = False) -> Reading:
        limited = asked.version >= _LIMITED_SINCE
        left = min(asked.max_bytes, MAX_RESPONSE_BYTES) if limited else MAX_RESPONSE_BYTES
        reading = Reading([], 0, [], False, [], [], arriving=arriving)
        try:
            named: dict[str, set[int]] = {}
            topics = asked.topics
            for topic, wanted in topics if len(topics) == 1 else context.paced(topics):
                seen = named.setdefault(topic, set())
                rows: list[FetchAnswerRow] = []
                reading.topics.append((topic, rows))
                for row in wanted if len(wanted) == 1 else context.paced(wanted):
                    if row[0] in seen:
                        continue
                    seen.add(row[0])
                    answer = self._read_partition(
                        asked,
                        topic,
                        row,
                        left - reading.size,
                        limited and reading.size == 0,
                        reading,
                        context,
                    )
                    rows.append(answer)
                    if answer[1]:
                        reading.failed = True
        except BaseException:
            reading.close()
            raise
        return reading

    def _read_partition(
        self,
        asked: Asked,
        topic: str,
        wanted: FetchRow,
        left: int,
        whole_entry: bool,
        reading: Reading,
        context: RequestContext,
    ) -> FetchAnswerRow:
        number, epoch, offset, log_start_offset, max_bytes = wanted
        services, follower = self._services, asked.follower
        counts = None
        aborted: list[tuple[int, int]] | None = None
        try:
            partition = services.replicas.partitions.get((topic, number))
            if partition is None or topic in services.view.topics.deleting:
                asked.patience = asked.patience or Patience()
                partition = services.partition(
                    topic, number, asked.patience, during_deletion=follower >= 0
                )
            counts = services.metrics.topics.get(topic) or services.metrics.topic(topic)
            counts.fetches += 1
            role: Role | None = partition.leading
            if role is None or epoch not in (NO_EPOCH, role.leader_epoch):
                any_replica = follower == COMPARES_REPLICAS
                role = partition.readable(epoch) if any_replica else partition.leadership(epoch)
            if max_bytes < 0:
                raise ProtocolError(f"max_bytes={max_bytes}", code=ErrorCode.INVALID_FETCH_SIZE)
            limit = min(max_bytes, max(left, 0))
            if follower >= 0 and self._throttle.exceeded and self._throttled(role, follower):
                limit, whole_entry = 0, False
            read = role.read(offset, limit, reader=asked.reader, min_one_entry=whole_entry)
            reading.roles.append(role)
            reading.ends.append(
                read.log_end_offset
                if asked.reader is ReadEnd.LOG_END
                else read.high_watermark
                if asked.reader is ReadEnd.HIGH_WATERMARK
                else read.last_stable_offset
            )
            if follower >= 0 and reading.arriving:
                # The position of an unassigned replica is ignored.
                assert isinstance(role, Leadership)
                try:
                    role.record_follower_fetch(
                        follower, offset, log_start_offset, read.log_end_offset, epoch
                    )
                except BaseException:
                    if read.found.slice is not None:
                        read.found.slice.close()
                    raise
            if read.aborted is not None:
                aborted = [(each.producer_id, each.first_offset) for each in read.aborted]
            records: FileSlice | bytes = b""
            size = 0
            part = read.found.slice
            if part is not None:
                records, size = part, part.size
                if asked.version < EVERYTHING_SINCE:
                    records, cut = self._conversion.older(
                        role, asked.version, asked.reader, offset, read.found, context
                    )
                    size = len(records)
                    reading.cut = reading.cut or cut
                reading.size += size
                if size:
                    reading.sizes.append((topic, number, size))
        except ZkbrokerError as error:
            if counts is not None:
                counts.failed_fetches += 1
            code = partition_error_code(error, ApiKey.FETCH, asked.version)
            return number, code, -1, -1, -1, None, 0, b""
        return (
            number,
            0,
            read.high_watermark,
            read.last_stable_offset,
            read.found.log_start_offset,
            aborted,
            size,
            records,
        )


def _partition(row: FetchAnswerRow) -> FetchResponsePartition:
    number, error, mark, stable, log_start, aborted, _, records = row
    return FetchResponsePartition(
        partition=number,
        error_code=error,
        high_watermark=mark,
        last_stable_offset=stable,
        log_start_offset=log_start,
        aborted_transactions=None
        if aborted is None
        else [FetchResponseAbortedTransaction(*each) for each in aborted],
        records=records,
    )
