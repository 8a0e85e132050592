"""Fetch sessions of followers (KIP-227): each request names only changed partitions.

    epoch 0: full request, creates a session      n: only changes, epochs in sequence
    epoch -1: the session ends

Invariant: a session keeps the whole request for each partition, including the leader epoch: a
follower with an old epoch is refused in each fetch, not only in its first. A partition that a
request names is answered even if nothing has changed. Sessions are bounded in number and in bytes.
A session that was unused for two minutes may be evicted for another, and one that was created
longer ago for a larger one. If none may be evicted, the new session is not created, and its
follower names all partitions in each fetch.
"""

import logging
import random
import sys
from dataclasses import dataclass

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.runtime import Runtime

Key = tuple[str, int]

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_S = 120.0
"""How long a session is safe from eviction since its last use; by a larger one, since it began."""
_MAX_INT32 = 2**31 - 1
_PARTITION_BYTES = 360
"""Memory of a partition in Python, without the name of its topic."""
_WARN_EVERY_S = 60.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Cached:
    """The request for a partition, and the last answer."""

    asked: FetchRequestPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    answered: bool = False

    def take(self, answer: FetchResponsePartition) -> bool:
        """Record an answer; returns whether it must be sent to the follower."""
        news = (
            not self.answered
            or bool(answer.error_code)
            or bool(answer.records)
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self.high_watermark = answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        self.answered = not answer.error_code
        return news


class FetchSession:
    """The partitions that one follower fetches. Args: now is the time, in seconds."""

    def __init__(self, session_id: int, now: float = 0.0) -> None:
        self.id = session_id
        self.epoch = 1
        self.made = self.used = now
        self.size_bytes = 0
        """Its approximate memory."""
        self._partitions: dict[Key, _Cached] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def change(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for topic in request.topics:
            partition_bytes = _partition_bytes(topic.topic)
            for asked in topic.partitions:
                cached = self._partitions.get((topic.topic, asked.partition))
                if cached is None:
                    self._partitions[topic.topic, asked.partition] = _Cached(asked)
                    self.size_bytes += partition_bytes
                else:
                    cached.asked = asked
                    # In another epoch it has dropped what was answered last.
                    cached.answered = False
        for forgotten in request.forgotten_topics:
            partition_bytes = _partition_bytes(forgotten.topic)
            for number in forgotten.partitions:
                if self._partitions.pop((forgotten.topic, number), None) is not None:
                    self.size_bytes -= partition_bytes

    def topics(self) -> list[FetchRequestTopic]:
        """Return all requested partitions, in the order in which to serve them."""
        asked: dict[str, FetchRequestTopic] = {}
        for (topic, _), cached in self._partitions.items():
            item = asked.get(topic)
            if item is None:
                item = asked[topic] = FetchRequestTopic(topic, [])
            item.partitions.append(cached.asked)
        return list(asked.values())

    def answered(
        self, topics: list[FetchResponseTopic], *, incremental: bool
    ) -> list[FetchResponseTopic]:
        """Return the changed partitions of an answer; those with records come last next time."""
        changed: list[FetchResponseTopic] = []
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
                changed.append(FetchResponseTopic(topic.topic, partitions))
        for key in served:
            cached = self._partitions.pop(key, None)
            if cached is not None:
                self._partitions[key] = cached
        return changed


def _partition_bytes(topic: str) -> int:
    return _PARTITION_BYTES + sys.getsizeof(topic)


class FetchSessions:
    """The sessions of a broker.

    Args:
        slots: largest number (`max.incremental.fetch.session.cache.slots`); 0 for none.
        max_bytes: limit of their memory (`max.incremental.fetch.session.cache.bytes`).
        runtime: its clock.
    """

    def __init__(self, slots: int, max_bytes: int, runtime: Runtime) -> None:
        self._slots = slots
        self._max_bytes = max_bytes
        self._clock_ms = runtime.clock_ms
        self._sessions: dict[int, FetchSession] = {}
        self._warned: float | None = None
        self.size_bytes = 0
        """Approximate memory of all sessions."""

    def __len__(self) -> int:
        return len(self._sessions)

    def session(self, request: FetchRequest) -> FetchSession | None:
        """Return the session of a request, changed by the request; None for a full fetch.

        Raises:
            ProtocolError: there is no such session, or no room for its partitions (70), or the
                request is out of order (71).
        """
        now = self._clock_ms() / 1000
        if request.session_epoch == FINAL_EPOCH:
            self._take(request.session_id)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self._take(request.session_id)
            return self._new(request, now)
        session = self._take(request.session_id)
        if session is None:
            raise ProtocolError(
                f"there is no fetch session {request.session_id}",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        if request.session_epoch != session.epoch:
            self._put(session)
            raise ProtocolError(
                f"fetch session {session.id} is at epoch {session.epoch}, "
                f"but the request is at {request.session_epoch}",
                code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            )
        session.epoch = 1 if session.epoch == _MAX_INT32 else session.epoch + 1
        session.change(request)
        if not len(session):
            return None
        if not self._make_room(session, now):
            raise ProtocolError(
                f"fetch session {session.id} ends: there is no room for its new partitions",
                code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
            )
        session.used = now
        self._put(session)
        return session

    def _new(self, request: FetchRequest, now: float) -> FetchSession | None:
        if not self._slots or not request.topics:
            return None
        session_id = 0
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = random.randint(1, _MAX_INT32)  # noqa: S311 - no secret
        session = FetchSession(session_id, now)
        session.change(request)
        if not self._make_room(session, now):
            return None
        self._put(session)
        return session

    def _put(self, session: FetchSession) -> None:
        """Keep a session as the last used one."""
        self._sessions[session.id] = session
        self.size_bytes += session.size_bytes

    def _take(self, session_id: int) -> FetchSession | None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.size_bytes -= session.size_bytes
        return session

    def _make_room(self, session: FetchSession, now: float) -> bool:
        """Evict others to make room for a session; False, with none evicted, if that is not enough.

        This is the rule of KIP-227 for followers, with a second limit.
        """
        slots = len(self._sessions) + 1 - self._slots
        over = self.size_bytes + session.size_bytes - self._max_bytes
        ending: list[FetchSession] = []
        if slots > 0 or over > 0:
            for victim in self._evictable(session, now):
                ending.append(victim)
                slots, over = slots - 1, over - victim.size_bytes
                if slots <= 0 and over <= 0:
                    break
        if slots > 0 or over > 0:
            self._warn(session, now)
            return False
        for victim in ending:
            self._take(victim.id)
        return True

    def _evictable(self, session: FetchSession, now: float) -> list[FetchSession]:
        """Return long unused sessions, the longest first; then old ones that are smaller."""
        unused = [each for each in self._sessions.values() if each.used + EVICTION_S < now]
        smaller = [
            each
            for each in self._sessions.values()
            if each.used + EVICTION_S >= now
            and each.made + EVICTION_S < now
            and each.size_bytes < session.size_bytes
        ]
        return unused + sorted(smaller, key=lambda each: each.size_bytes)

    def _warn(self, session: FetchSession, now: float) -> None:
        if self._warned is None or now - self._warned >= _WARN_EVERY_S:
            self._warned = now
            logger.warning(
                "fetch session not kept partitions=%d bytes=%d: %d sessions take %d bytes of "
                "max.incremental.fetch.session.cache.bytes=%d "
                "(max.incremental.fetch.session.cache.slots=%d)",
                len(session),
                session.size_bytes,
                len(self._sessions),
                self.size_bytes,
                self._max_bytes,
                self._slots,
            )
