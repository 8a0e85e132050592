"""Fetch sessions of followers (KIP-227): what was asked once need not be asked again.

    epoch 0: full request, a session is made      n: only what changed, epochs in sequence
    epoch -1: the session ends

Invariant: a session keeps everything that was asked of a partition, the leader epoch with it: a
follower that was left behind is refused in each fetch, not only in its first. Sessions are bounded;
the one that was used longest ago makes room.
"""

import random
from dataclasses import dataclass

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    FetchResponseTopic,
)

Key = tuple[str, int]

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_INT32 = 2**31 - 1


@dataclass(slots=True)
class _Cached:
    """What is asked of a partition, and what was answered last."""

    asked: FetchRequestPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    told: bool = False

    def take(self, answer: FetchResponsePartition) -> bool:
        """Note an answer; whether it is worth telling."""
        news = (
            not self.told
            or bool(answer.error_code)
            or bool(answer.records)
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self.high_watermark = answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        self.told = not answer.error_code
        return news


class FetchSession:
    """The partitions that one follower fetches."""

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.epoch = 1
        self._partitions: dict[Key, _Cached] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def change(self, request: FetchRequest) -> None:
        """Take what a request adds, changes and forgets."""
        for topic in request.topics:
            for asked in topic.partitions:
                cached = self._partitions.get((topic.topic, asked.partition))
                if cached is None:
                    self._partitions[topic.topic, asked.partition] = _Cached(asked)
                else:
                    cached.asked = asked
        for forgotten in request.forgotten_topics:
            for number in forgotten.partitions:
                self._partitions.pop((forgotten.topic, number), None)

    def topics(self) -> list[FetchRequestTopic]:
        """Return everything that is asked, in the order in which it is to be served."""
        asked: dict[str, FetchRequestTopic] = {}
        ordered: list[FetchRequestTopic] = []
        for (topic, _), cached in self._partitions.items():
            item = asked.get(topic)
            if item is None:
                item = asked[topic] = FetchRequestTopic(topic, [])
                ordered.append(item)
            item.partitions.append(cached.asked)
        return ordered

    def answered(
        self, topics: list[FetchResponseTopic], *, incremental: bool
    ) -> list[FetchResponseTopic]:
        """Return what of an answer is to be told; who got records comes last the next time."""
        told: list[FetchResponseTopic] = []
        served: list[Key] = []
        for topic in topics:
            partitions = []
            for answer in topic.partitions:
                key = (topic.topic, answer.partition)
                cached = self._partitions.get(key)
                news = cached is None or cached.take(answer)
                if news or not incremental:
                    partitions.append(answer)
                if answer.records:
                    served.append(key)
            if partitions:
                told.append(FetchResponseTopic(topic.topic, partitions))
        for key in served:
            cached = self._partitions.pop(key, None)
            if cached is not None:
                self._partitions[key] = cached
        return told


class FetchSessions:
    """The sessions of a broker.

    Args:
        slots: how many at most (`max.incremental.fetch.session.cache.slots`); 0 for none.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def session(self, request: FetchRequest) -> FetchSession | None:
        """Return the session of a request, with what the request changes; None for a full fetch.

        Raises:
            ProtocolError: there is no such session (70), or the request is out of order (71).
        """
        if request.session_epoch == FINAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self._sessions.pop(request.session_id, None)
            return self._new(request)
        session = self._sessions.pop(request.session_id, None)
        if session is None:
            raise ProtocolError(
                f"there is no fetch session {request.session_id}",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        self._sessions[session.id] = session  # the one that was used last
        if request.session_epoch != session.epoch:
            raise ProtocolError(
                f"fetch session {session.id} is at epoch {session.epoch}, "
                f"the request at {request.session_epoch}",
                code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            )
        session.epoch = 1 if session.epoch == _MAX_INT32 else session.epoch + 1
        session.change(request)
        if not len(session):
            del self._sessions[session.id]
            return None
        return session

    def _new(self, request: FetchRequest) -> FetchSession | None:
        if not self._slots or not request.topics:
            return None
        while len(self._sessions) >= self._slots:
            del self._sessions[next(iter(self._sessions))]
        session_id = 0
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, _MAX_INT32)  # noqa: S311 - no secret
        session = FetchSession(session_id)
        session.change(request)
        self._sessions[session_id] = session
        return session
