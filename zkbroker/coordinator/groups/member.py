"""One member of a group, and the answers it gets."""

from collections.abc import Callable
from dataclasses import dataclass, field

from zkbroker.errors import ErrorCode
from zkbroker.protocol.offsets_topic import GroupMemberValue

NO_GENERATION = -1
_MEMBER_BYTES = 1024


def member_bytes(client_id: str, protocols: tuple[tuple[str, bytes], ...]) -> int:
    """Approximate memory of a member with this client id and these protocols."""
    brought = sum(len(name) + len(metadata) for name, metadata in protocols)
    return _MEMBER_BYTES + 2 * len(client_id) + brought


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A consumer's request to join.

    Args:
        member_id: "" for a new member.
        client_id: as in the request's header; "" for none.
        client_host: its address as brokers write it, `/127.0.0.1`.
        session_timeout_ms: silence after which it counts as dead.
        rebalance_timeout_ms: how long it may take to rejoin; below 0, the session time-out.
        protocol_type: "consumer" for consumers.
        protocols: name and metadata, the preferred one first.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def size_bytes(self) -> int:
        """Approximate memory that its member will take."""
        return member_bytes(self.client_id, self.protocols)


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to a join; `members` (id, metadata) is for the leader only."""

    error: ErrorCode
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to a sync: the member's assignment."""

    error: ErrorCode
    assignment: bytes = b""


JoinReply = Callable[[JoinResult], None]
SyncReply = Callable[[SyncResult], None]


@dataclass(slots=True)
class Member:
    """A member in the coordinator's memory.

    Args:
        deadline_ms: when its session ends without another request.
        join_reply: set while its JoinGroup waits; a waiting member's session does not end.
        sync_reply: set while its SyncGroup waits; the session does not end either.
        synced: whether it has asked for its assignment in this generation.
        id_sent: whether its id was sent to the client, which could not return under it before.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    deadline_ms: int
    assignment: bytes = b""
    join_reply: JoinReply | None = field(default=None, repr=False)
    sync_reply: SyncReply | None = field(default=None, repr=False)
    synced: bool = False
    id_sent: bool = True

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest, now_ms: int) -> "Member":
        """A member that has not joined a rebalance yet; its session begins."""
        return cls(
            member_id=member_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=0,
            protocols=(),
            deadline_ms=now_ms + request.session_timeout_ms,
            id_sent=False,
        )

    @classmethod
    def restored(cls, stored: GroupMemberValue, protocol: str | None, now_ms: int) -> "Member":
        """A stored member; its session begins again."""
        return cls(
            member_id=stored.member_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout_ms,
            rebalance_timeout_ms=_or_session(
                stored.rebalance_timeout_ms, stored.session_timeout_ms
            ),
            protocols=((protocol or "", stored.subscription),),
            deadline_ms=now_ms + stored.session_timeout_ms,
            assignment=stored.assignment,
            synced=True,
        )

    def value(self, protocol: str | None, assignment: bytes) -> GroupMemberValue:
        """The member as it is stored, with an assignment that it may not have yet."""
        return GroupMemberValue(
            member_id=self.member_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    @property
    def waits(self) -> bool:
        """Whether one of its requests is unanswered."""
        return self.join_reply is not None or self.sync_reply is not None

    def waits_for(self, reply: JoinReply | SyncReply) -> bool:
        """Whether one of its requests waits for this reply."""
        return self.join_reply is reply or self.sync_reply is reply

    def stop_waiting(self, now_ms: int) -> None:
        """Treat its client as gone: it may return before its session ends."""
        self.join_reply = self.sync_reply = None
        self.heard(now_ms)

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the member."""
        return member_bytes(self.client_id, self.protocols) + len(self.assignment)

    @property
    def protocol_names(self) -> list[str]:
        """The protocols it supports, in order of preference."""
        return [name for name, _ in self.protocols]

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; empty if it does not support the protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def heard(self, now_ms: int) -> None:
        """Restart its session time-out."""
        self.deadline_ms = now_ms + self.session_timeout_ms

    def await_join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Let a JoinGroup wait for the end of the rebalance; it replaces an earlier one."""
        self.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, self.member_id))
        self.client_id, self.client_host = request.client_id, request.client_host
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = _or_session(
            request.rebalance_timeout_ms, request.session_timeout_ms
        )
        self.protocols = request.protocols
        self.join_reply = reply

    def answer_join(self, result: JoinResult) -> None:
        """Answer its waiting JoinGroup, if there is one."""
        reply, self.join_reply = self.join_reply, None
        if reply is not None:
            self.id_sent = True
            reply(result)

    def answer_sync(self, result: SyncResult) -> None:
        """Answer its waiting SyncGroup, if there is one."""
        reply, self.sync_reply = self.sync_reply, None
        if reply is not None:
            reply(result)


def _or_session(rebalance_timeout_ms: int, session_timeout_ms: int) -> int:
    return rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms
