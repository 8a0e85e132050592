"""The state machine of one group: no sockets, no clock of its own, nothing that waits.

    Empty ──join──► PreparingRebalance ──all joined, or time out──► CompletingRebalance
      ▲                   ▲      ▲                                        │ leader's sync stored
      │ last member gone  │      └── join, leave, session ends ──┐        ▼
      └───────────────────┴──────────────────────────────────── Stable
    Dead: removed; every request is answered "unknown member"

Invariants:
- `generation` grows by one whenever PreparingRebalance ends; a member gets the generation of the
  rebalance it took part in, and requests with another one are refused.
- The first member to join leads; when the leader leaves, the earliest other member takes over. Only
  the leader gets the members' metadata; only its sync brings assignments.
- In Stable every member has an assignment of the current generation, and it has been stored.
- A waiting request is answered exactly once: by the end of the rebalance, by its member's removal,
  by a repetition of the request, or by `close`; never if its client disconnects.

Each call passes the time as `now_ms`, of a clock that never jumps; `tick` handles deadlines that
have passed, `next_deadline` returns the next one. Replies and `store` may be called from within any
method; they must not call back into it.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from zkbroker.coordinator.groups.election import candidates, elect
from zkbroker.coordinator.groups.member import (
    JoinReply,
    JoinRequest,
    JoinResult,
    Member,
    SyncReply,
    SyncResult,
)
from zkbroker.errors import ErrorCode
from zkbroker.protocol.offsets_topic import GroupValue

Stored = Callable[[ErrorCode, int], None]
Store = Callable[[GroupValue, Stored], None]
_GROUP_BYTES = 1024


class GroupState(Enum):
    """The states; DescribeGroups shows the values."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Group:
    """One group.

    Args:
        group_id: its name.
        store: called with the group's value when an assignment is complete or the group has become
            empty; calls back with the outcome and the time, at once or later.
        new_member_id: makes the id of a new member from its client id.
        initial_delay_ms: how long an empty group waits for more members after the first.
        max_size: how many members it may have.
        wall_ms: the time of day, for `state_since_ms`, which is stored.
    """

    def __init__(
        self,
        group_id: str,
        *,
        store: Store,
        new_member_id: Callable[[str], str],
        initial_delay_ms: int,
        max_size: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = wall_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self._store = store
        self._new_member_id = new_member_id
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size
        self._wall_ms = wall_ms
        self._rebalance_deadline_ms: int | None = None
        self._delay_left_ms: int | None = None  # not None while an empty group gathers members
        self._newcomer = False

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the group with its members."""
        return _GROUP_BYTES + len(self.group_id) + sum(m.size_bytes for m in self.members.values())

    def join(self, request: JoinRequest, reply: JoinReply, now_ms: int) -> None:
        """A member joins or rejoins; `reply` is called when the rebalance is over."""
        error = self._join_error(request)
        if error is not ErrorCode.NONE:
            reply(JoinResult(error, request.member_id))
            return
        member = self.members.get(request.member_id)
        if member is None:
            member = self._add(request, now_ms)
        elif self._keeps_generation(member, request):
            member.heard(now_ms)
            reply(self._join_result(member))
            return
        member.await_join(request, reply)
        self._rebalance(now_ms)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes],
        reply: SyncReply,
        now_ms: int,
    ) -> None:
        """A member asks for its assignment; the leader brings those of all members."""
        error = self.check_member(member_id, generation)
        if error is ErrorCode.NONE and self.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            reply(SyncResult(error))
            return
        member = self.members[member_id]
        member.heard(now_ms)
        member.synced = True
        if self.state is GroupState.STABLE:
            reply(SyncResult(ErrorCode.NONE, member.assignment))
            return
        member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply
        if member_id == self.leader:
            self._store_assignments(assignments)

    def heartbeat(self, member_id: str, generation: int, now_ms: int) -> ErrorCode:
        """Record that a member is alive; the answer says when it has to rejoin."""
        error = self.check_member(member_id, generation)
        if error is ErrorCode.NONE:
            self.members[member_id].heard(now_ms)
            if self.state is GroupState.PREPARING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def leave(self, member_id: str, now_ms: int) -> ErrorCode:
        """A member leaves."""
        if self.state is GroupState.DEAD or member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self._remove(member_id)
        self._rebalance(now_ms)
        return ErrorCode.NONE

    def gone(self, reply: JoinReply | SyncReply, now_ms: int) -> None:
        """Process the disconnect of a client whose request waits for this reply."""
        for member in [each for each in self.members.values() if each.waits_for(reply)]:
            member.stop_waiting(now_ms)
            if not member.id_sent:
                self._remove(member.member_id)
                self._rebalance(now_ms)

    def check_commit(self, member_id: str, generation: int, now_ms: int) -> ErrorCode:
        """Whether offsets may be committed; a commit also counts as a heartbeat."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # a consumer that commits offsets but is not a group member
        error = self.check_member(member_id, generation)
        if error is ErrorCode.NONE and self.state is GroupState.COMPLETING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is ErrorCode.NONE:
            self.members[member_id].heard(now_ms)
        return error

    def check_member(self, member_id: str, generation: int) -> ErrorCode:
        """Whether a request comes from a member of the current generation."""
        if self.state is GroupState.DEAD or member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def tick(self, now_ms: int) -> None:
        """Handle passed deadlines: sessions that expired, a rebalance whose time is over."""
        members = self.members.values()
        ended = [m.member_id for m in members if not m.waits and m.deadline_ms <= now_ms]
        for member_id in ended:
            self._remove(member_id)
        if ended:
            self._rebalance(now_ms)
        deadline = self._rebalance_deadline_ms
        if deadline is None or now_ms < deadline:
            return
        if self.state is GroupState.PREPARING:
            if self._newcomer and self._delay_left_ms:
                self._extend_delay(now_ms)
            else:
                self._complete(now_ms)
        elif self.state is GroupState.COMPLETING:
            for member_id in [m.member_id for m in self.members.values() if not m.synced]:
                self._remove(member_id)
            self._rebalance(now_ms)

    def next_deadline(self) -> int | None:
        """The time of the next deadline, at the earliest; None if there is none."""
        times = [m.deadline_ms for m in self.members.values() if not m.waits]
        if self._rebalance_deadline_ms is not None:
            times.append(self._rebalance_deadline_ms)
        return min(times, default=None)

    def value(self, assignments: Mapping[str, bytes]) -> GroupValue:
        """The group as it is stored.

        Args:
            assignments: of its members, by member id; the members may not have them yet.
        """
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp_ms=self.state_since_ms,
            members=[
                member.value(self.protocol, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ],
        )

    def restore(self, value: GroupValue, now_ms: int) -> None:
        """Restore a stored group: its members continue in their generation."""
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.leader = value.leader
        if value.current_state_timestamp_ms >= 0:
            self.state_since_ms = value.current_state_timestamp_ms
        self.members = {
            stored.member_id: Member.restored(stored, value.protocol, now_ms)
            for stored in value.members
        }
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def close(self, error: ErrorCode) -> None:
        """Answer every waiting request with `error`; the group is dead, and nothing comes due."""
        self.state = GroupState.DEAD
        self._rebalance_deadline_ms = None
        for member in self.members.values():
            member.answer_join(JoinResult(error, member.member_id))
            member.answer_sync(SyncResult(error))
        self.members = {}

    def _join_error(self, request: JoinRequest) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not request.protocols or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.members:
            names = candidates(m.protocol_names for m in self.members.values())
            if request.protocol_type != self.protocol_type or names.isdisjoint(
                name for name, _ in request.protocols
            ):
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id and request.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not request.member_id and len(self.members) >= self._max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return ErrorCode.NONE

    def _keeps_generation(self, member: Member, request: JoinRequest) -> bool:
        """Whether a known member only missed an answer, and its request changes nothing.

        A leader that rejoins a stable group requests a new assignment.
        """
        if member.protocols != request.protocols:
            return False
        if self.state is GroupState.STABLE:
            return member.member_id != self.leader
        return self.state is GroupState.COMPLETING

    def _add(self, request: JoinRequest, now_ms: int) -> Member:
        member_id = self._new_member_id(request.client_id)
        member = Member.joining(member_id, request, now_ms)
        if not self.members:
            self.protocol_type = request.protocol_type
            self.leader = member_id
        self.members[member_id] = member
        self._newcomer = True
        return member

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))

    def _enter(self, state: GroupState) -> None:
        self.state = state
        self.state_since_ms = self._wall_ms()

    def _rebalance(self, now_ms: int) -> None:
        """Begin a rebalance unless one is under way, and end it if all members have joined."""
        self._prepare(now_ms)
        self._complete_if_joined(now_ms)

    def _prepare(self, now_ms: int) -> None:
        if self.state is GroupState.PREPARING:
            return
        was_empty = self.state is GroupState.EMPTY
        for member in self.members.values():
            member.assignment = b""
            member.synced = False
            if member.sync_reply is not None:
                member.heard(now_ms)  # its session was suspended while it waited
                member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        self._enter(GroupState.PREPARING)
        longest = max((m.rebalance_timeout_ms for m in self.members.values()), default=0)
        if was_empty and self._initial_delay_ms > 0:
            self._delay_left_ms = longest
            self._extend_delay(now_ms)
        else:
            self._delay_left_ms = None
            self._rebalance_deadline_ms = now_ms + longest

    def _extend_delay(self, now_ms: int) -> None:
        """Wait for more members: each one that joins prolongs the delay, up to the time-out."""
        assert self._delay_left_ms is not None
        delay = min(self._initial_delay_ms, self._delay_left_ms)
        self._delay_left_ms -= delay
        self._newcomer = False
        self._rebalance_deadline_ms = now_ms + delay

    def _complete_if_joined(self, now_ms: int) -> None:
        if self.state is not GroupState.PREPARING:
            return
        if self._delay_left_ms is not None and self.members:
            return
        if all(m.join_reply is not None for m in self.members.values()):
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """End PreparingRebalance with the members that have joined."""
        for member_id in [m.member_id for m in self.members.values() if m.join_reply is None]:
            self._remove(member_id)
        self.generation += 1
        self._delay_left_ms = None
        self._newcomer = False
        if not self.members:
            self.protocol = None
            self._rebalance_deadline_ms = None
            self._enter(GroupState.EMPTY)
            # If this fails, the next change of the group stores it again.
            self._store(self.value({}), lambda _error, _now_ms: None)
            return
        self.protocol = elect([m.protocol_names for m in self.members.values()])
        self._enter(GroupState.COMPLETING)
        longest = max(
            max(m.rebalance_timeout_ms, m.session_timeout_ms) for m in self.members.values()
        )
        self._rebalance_deadline_ms = now_ms + longest
        for member in list(self.members.values()):
            member.synced = False
            member.heard(now_ms)
            member.answer_join(self._join_result(member))

    def _join_result(self, member: Member) -> JoinResult:
        assert self.protocol is not None
        assert self.leader is not None
        everybody = self.members.values() if member.member_id == self.leader else ()
        members = tuple((each.member_id, each.metadata(self.protocol)) for each in everybody)
        member_id, generation = member.member_id, self.generation
        return JoinResult(
            ErrorCode.NONE, member_id, generation, self.protocol, self.leader, members
        )

    def _store_assignments(self, assignments: dict[str, bytes]) -> None:
        generation = self.generation
        given = {member_id: assignments.get(member_id, b"") for member_id in self.members}

        def stored(error: ErrorCode, now_ms: int) -> None:
            # The group may have begun another rebalance meanwhile.
            if self.state is not GroupState.COMPLETING or self.generation != generation:
                return
            if error is not ErrorCode.NONE:
                for member in self.members.values():
                    member.heard(now_ms)
                    member.answer_sync(SyncResult(error))
                self._rebalance(now_ms)
                return
            self._rebalance_deadline_ms = None
            self._enter(GroupState.STABLE)
            for member in list(self.members.values()):
                member.assignment = given.get(member.member_id, b"")
                if member.sync_reply is not None:
                    member.heard(now_ms)
                    member.answer_sync(SyncResult(ErrorCode.NONE, member.assignment))

        self._store(self.value(given), stored)
