"""Seeded schedules of a group: two healthy members, and clients that join and disconnect.

Invariant: a client that disconnects during its join delays the members by one rebalance at most.
"""

import random

import pytest

from tests.support.group_driver import GroupDriver
from zkbroker.errors import ErrorCode

SESSION_MS = 45_000
HEARTBEAT_MS = 3_000
STEP_MS = 100
STEPS = 3_000
LONGEST_PAUSE_MS = SESSION_MS // 3
"""A few consecutive rebalances."""


class Member:
    """Joins, syncs, beats and joins rejoin, as consumers do."""

    def __init__(self, driver):
        self.driver = driver
        self.member_id = ""
        self.generation = -1
        self.assigned = False
        self._joined = self._synced = None
        self._heartbeat_at = 0
        self.join()

    def join(self):
        self.assigned = False
        self._synced = None
        self._joined = self.driver.join(self.member_id, session_ms=SESSION_MS)

    def work(self):
        if self._joined:
            (answer,) = self._joined
            self._joined = None
            self.member_id = answer.member_id
            self.generation = answer.generation
            if answer.error is not ErrorCode.NONE:
                self.rejoin(answer.error)
                return
            given = {each: b"share" for each, _ in answer.members}
            self._synced = self.driver.sync(self.member_id, self.generation, given)
        if self._synced:
            error = self._synced[0].error
            self._synced = None
            if error is not ErrorCode.NONE:
                self.rejoin(error)
                return
            self.assigned = True
            self._heartbeat_at = self.driver.now + HEARTBEAT_MS
        if self.assigned and self.driver.now >= self._heartbeat_at:
            self._heartbeat_at = self.driver.now + HEARTBEAT_MS
            error = self.driver.heartbeat(self.member_id, self.generation)
            if error is not ErrorCode.NONE:
                self.rejoin(error)

    def rejoin(self, error):
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self.join()

    def disconnect(self):
        """Close the connection; return whether a join was waiting on it."""
        found = self.driver.group.members.values()
        for reply in [each.join_reply for each in found if each.join_reply is not None]:
            if reply.__self__ is self._joined:
                self.driver.group.gone(reply, self.driver.now)
                return True
        return False

    def leave(self):
        self.driver.leave(self.member_id)


@pytest.mark.parametrize("seed", range(20))
def test_joins_complete_while_other_clients_come_and_go(seed):
    chance = random.Random(seed)
    driver = GroupDriver(initial_delay_ms=chance.choice((0, 3_000)))
    members = [Member(driver), Member(driver)]
    visitors = []
    idle_since, longest_ms, disconnects = None, 0, 0
    for _ in range(STEPS):
        driver.advance(STEP_MS)
        if not visitors and chance.random() < 0.02:
            visitors.append(Member(driver))
        for visitor in list(visitors):
            if chance.random() < 0.05:
                visitors.remove(visitor)
                if visitor.disconnect():
                    disconnects += 1
                else:
                    visitor.work()
                    visitor.leave()
            else:
                visitor.work()
        for member in members:
            member.work()
        if any(each.assigned for each in members):
            idle_since = None
        else:
            idle_since = driver.now if idle_since is None else idle_since
            longest_ms = max(longest_ms, driver.now - idle_since)
    assert disconnects > 5
    assert longest_ms <= LONGEST_PAUSE_MS
