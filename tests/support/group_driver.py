"""Drives a group's state machine with a virtual clock and collects its responses."""

from zkbroker.coordinator.groups.group import Group
from zkbroker.coordinator.groups.member import JoinRequest
from zkbroker.errors import ErrorCode


class GroupDriver:
    """A group whose storage answers at once unless `hold_store` is set."""

    def __init__(self, *, initial_delay_ms=0, max_size=1000):
        self.now = 1_000
        self.stored = []
        self.held = []
        self.hold_store = False
        self.store_error = ErrorCode.NONE
        self.ids = 0
        self.group = Group(
            "g",
            store=self._store,
            new_member_id=self._member_id,
            initial_delay_ms=initial_delay_ms,
            max_size=max_size,
            wall_ms=lambda: self.now + 1_500_000_000_000,
        )

    def _member_id(self, client_id):
        self.ids += 1
        return f"{client_id}-{self.ids}"

    def _store(self, value, stored):
        self.stored.append(value)
        if self.hold_store:
            self.held.append(stored)
        else:
            stored(self.store_error, self.now)

    def join(
        self,
        member_id="",
        *,
        client_id="c",
        protocols=(("range", b"meta"),),
        session_ms=10_000,
        rebalance_ms=60_000,
        protocol_type="consumer",
    ):
        """Returns the list into which the answer will be put."""
        answers = []
        request = JoinRequest(
            member_id, client_id, "/127.0.0.1", session_ms, rebalance_ms, protocol_type, protocols
        )
        self.group.join(request, answers.append, self.now)
        return answers

    def sync(self, member_id, generation, assignments=None):
        answers = []
        self.group.sync(member_id, generation, assignments or {}, answers.append, self.now)
        return answers

    def heartbeat(self, member_id, generation):
        return self.group.heartbeat(member_id, generation, self.now)

    def leave(self, member_id):
        return self.group.leave(member_id, self.now)

    def advance(self, ms):
        """Let time pass, ticking at every deadline on the way."""
        end = self.now + ms
        while True:
            deadline = self.group.next_deadline()
            if deadline is None or deadline > end:
                break
            self.now = max(self.now, deadline)
            self.group.tick(self.now)
        self.now = end

    def stable(self, count=2, **join):
        """Bring an empty group with `count` members to Stable; returns their ids."""
        first = self.join(**join)
        answers = [first, *(self.join(**join) for _ in range(count - 1))]
        if count > 1:  # the first is stable or joining alone: it has to come again
            answers[0] = self.join(first[0].member_id, **join)
        ids = [answer[0].member_id for answer in answers]
        generation = answers[0][0].generation
        leader = answers[0][0].leader
        others = [self.sync(each, generation) for each in ids if each != leader]
        given = {each: each.encode() for each in ids}
        synced = self.sync(leader, generation, given)
        assert synced[0].error is ErrorCode.NONE
        assert all(other[0].error is ErrorCode.NONE for other in others)
        return ids
