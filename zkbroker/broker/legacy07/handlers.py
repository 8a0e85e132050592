"""Handles each request like a 0.7.2 broker, including closed connections and missing answers.

Invariants: a produce is never answered. A failure for which a genuine broker has no error closes
the connection; a set with a payload above `max.message.size` is silently dropped, as by a genuine
broker. Fetch and offsets see flushed bytes only. Each slice of a file that is opened for an answer
is part of it, or closed.
"""

import logging
import random
from collections.abc import Callable, Sequence

from zkbroker.broker.guard import Permissions
from zkbroker.broker.legacy07.guard import Guard07
from zkbroker.broker.legacy07.views import Views07
from zkbroker.errors import (
    ErrorCode,
    InvalidTopic,
    MessageSizeTooLarge,
    OffsetOutOfRange,
    ProtocolError,
    RegistryError,
    StorageError,
)
from zkbroker.fileslice import FileSlice
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.log import EARLIEST, LATEST
from zkbroker.log.legacy07.view import View07
from zkbroker.network.server.session import CloseConnection, Session
from zkbroker.network.transport import Part
from zkbroker.protocol.legacy07 import (
    Fetch07,
    MultiFetch07,
    MultiProduce07,
    Offsets07,
    Produce07,
    decode_request,
    encode_answer,
    encode_offsets,
    part_head,
)
from zkbroker.records.legacy07 import Checked07, Limits07, check_plain_set, check_set
from zkbroker.runtime import Runtime
from zkbroker.security import Operation

logger = logging.getLogger(__name__)

_MAX_ANSWER_BYTES = 2**31 - 1
_CHECKED_AT_ONCE_BYTES = 64 * 1024
_PLAIN_AT_ONCE_BYTES = 1024 * 1024
_FAIR_AFTER = 64


class _Over:
    """Marks a session whose connection is closed after the present answer."""


class Handlers07:
    """Answers the requests of one listener.

    Args:
        logs: the 0.7 logs.
        limits: of a produced set.
        runtime: runs work that would block the other connections.
        choose: picks a partition below a number, for sets to partition -1.
        views: of newer topics; None if there are only 0.7 logs.
        permissions: of the broker; None if every client may do everything.
    """

    def __init__(
        self,
        logs: Legacy07Logs,
        limits: Limits07,
        runtime: Runtime,
        choose: Callable[[int], int] = random.randrange,
        views: Views07 | None = None,
        permissions: Permissions | None = None,
    ) -> None:
        self._views = views
        self._guard = Guard07(permissions, lambda topic: topic in logs.topics)
        self._logs = logs
        self._limits = limits
        self._runtime = runtime
        self._choose = choose

    def handle(self, session: Session, frame: memoryview) -> Sequence[Part] | None:
        """Answer one request; None for those without an answer.

        Raises:
            CloseConnection: a genuine broker closes the connection.
            StorageError: the disk failed.
        """
        if isinstance(session.context, _Over):
            raise CloseConnection("the last answer ended the connection", quiet=True)
        try:
            request = decode_request(frame)
            if isinstance(request, Produce07):
                self._produce(session, request)
                return None
            if isinstance(request, MultiProduce07):
                for count, each in enumerate(request.sets):
                    self._produce(session, each)
                    self._pace(count)
                return None
            if isinstance(request, Offsets07):
                return [encode_answer(encode_offsets(self._offsets(session, request)))]
            if isinstance(request, MultiFetch07):
                return self._answer_multifetch(session, request)
            return self._answer_fetch(session, request)
        except (ProtocolError, RegistryError) as error:
            raise CloseConnection(str(error)) from error
        except OSError as error:
            raise StorageError(f"a 0.7 log cannot be read: {error}") from error

    def _produce(self, session: Session, request: Produce07) -> None:
        logs, topic = self._logs, request.topic
        self._guard.require_write(session, topic)
        logs.check_topic(topic)
        partition = self._partition(request)
        if self._views is not None and not logs.is_view(topic):
            self._views.prepare(topic)
            # The partitions may differ from those in the settings.
            partition = self._partition(request)
        log = logs.get_or_make(topic, partition)
        data = request.messages
        try:
            checked, plain = self._check(data)
            if not checked.size:
                return
            if isinstance(log, View07) and self._views is not None:
                self._views.produce(topic, log, data[: checked.size], plain=plain)
            else:
                log.append(data[: checked.size], checked.messages)
        except MessageSizeTooLarge as error:
            logger.warning("set dropped topic=%s partition=%d: %s", topic, partition, error)

    def _check(self, data: bytes | memoryview) -> tuple[Checked07, bool]:
        """Check a set, and return whether it is known to hold no wrapper.

        A long check runs in another thread.

        Raises:
            MessageSizeTooLarge, CorruptMessage: see `check_set`.
        """
        if len(data) <= _PLAIN_AT_ONCE_BYTES:
            checked = check_plain_set(data, self._limits)
            if checked is not None:
                return checked, True
        if len(data) <= _CHECKED_AT_ONCE_BYTES:
            return check_set(data, self._limits), False
        return self._runtime.offload(check_set, data, self._limits), False

    def _partition(self, request: Produce07) -> int:
        """Return the partition that a set is for.

        Raises:
            ProtocolError: there is no such partition.
        """
        partitions = self._logs.partitions(request.topic)
        partition = request.partition
        if partition == -1:
            partition = self._choose(partitions)
        if not 0 <= partition < partitions:
            raise ProtocolError(
                f"partition {partition} of {request.topic!r}, which has {partitions} here",
                code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        return partition

    def _offsets(self, session: Session, request: Offsets07) -> list[int]:
        self._guard.require(session, Operation.DESCRIBE, request.topic)
        self._logs.check_topic(request.topic)
        partitions = self._logs.partitions(request.topic)
        if not 0 <= request.partition < partitions or request.count < 0:
            raise ProtocolError(
                f"offsets of partition {request.partition} of {partitions}, {request.count} of "
                "them: 0.7 has no error for that",
                code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        log = self._logs.get(request.topic, request.partition)
        if log is None:
            return [0][: request.count] if request.time_ms in (LATEST, EARLIEST) else []
        return log.offsets(request.time_ms, request.count)

    def _answer_fetch(self, session: Session, request: Fetch07) -> list[Part]:
        error, data, size = self._fetch(session, request, _MAX_ANSWER_BYTES - 2)
        parts: list[Part] = [part_head(size, error)]
        if data is not None:
            parts.append(data)
        elif size < 0:
            self._end(session)
        return parts

    def _answer_multifetch(self, session: Session, request: MultiFetch07) -> list[Part]:
        parts: list[Part] = []
        total = 0
        whole = True
        left = _MAX_ANSWER_BYTES - 2 - 6 * len(request.fetches)
        try:
            for count, each in enumerate(request.fetches):
                error, data, size = self._fetch(session, each, left)
                total += 6 + size
                if not whole:
                    # A genuine broker counts it in the size of the answer, and never sends it.
                    if data is not None:
                        data.close()
                    continue
                parts.append(part_head(size, error))
                if data is not None:
                    parts.append(data)
                    left -= size
                elif size < 0:
                    whole = False
                self._pace(count)
        except BaseException:
            _close(parts)
            raise
        if not whole:
            self._end(session)
        return [part_head(total), *parts]

    def _fetch(
        self, session: Session, request: Fetch07, at_most: int
    ) -> tuple[int, FileSlice | None, int]:
        """Return error number, bytes, and the number of bytes that a genuine broker announces.

        For a negative `max_bytes` a genuine broker announces a negative number, then fails: it
        sends no bytes and closes.
        """
        if not self._guard.may(session, Operation.READ, request.topic):
            return ErrorCode.UNKNOWN_SERVER_ERROR, None, 0
        try:
            self._logs.check_topic(request.topic)
        except InvalidTopic:
            return ErrorCode.UNKNOWN_SERVER_ERROR, None, 0
        if not 0 <= request.partition < self._logs.partitions(request.topic):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, 0
        log = self._logs.get(request.topic, request.partition)
        if log is None:
            return ErrorCode.NONE, None, 0
        try:
            data = log.read(request.offset, min(request.max_bytes, at_most))
        except OffsetOutOfRange:
            return ErrorCode.OFFSET_OUT_OF_RANGE, None, 0
        if data is None:
            return ErrorCode.NONE, None, min(request.max_bytes, 0)
        return ErrorCode.NONE, data, data.size

    def _pace(self, count: int) -> None:
        if count % _FAIR_AFTER == _FAIR_AFTER - 1:
            self._runtime.sleep(0)

    def _end(self, session: Session) -> None:
        session.context = _Over()
        session.finish()


def _close(parts: Sequence[Part]) -> None:
    for part in parts:
        if isinstance(part, FileSlice):
            part.close()
