"""The state machine against a model: random joins, syncs, heartbeats, leaves and time-outs.

The model keeps what the protocol promises each member and predicts every answer and every state
from that; it knows nothing of deadlines kept, replies held or the order of transitions.
"""

import random
from dataclasses import dataclass, field

import pytest

from tests.support import soak
from tests.support.group_driver import GroupDriver
from zkbroker.coordinator.groups.election import elect
from zkbroker.coordinator.groups.group import GroupState
from zkbroker.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 12_000
OFFERS = [
    (("range", b"1"),),
    (("range", b"1"), ("sticky", b"2")),
    (("sticky", b"2"), ("range", b"1")),
    (("roundrobin", b"3"), ("range", b"1")),
]
PHASES = [  # of join, sync, heartbeat, leave, expire
    (30, 30, 20, 3, 17),
    (10, 60, 20, 1, 9),
    (0, 0, 70, 0, 30),  # alive, but no member joins or syncs
    (5, 5, 10, 10, 70),
]
FOREIGN = (("mine", b""),)


@dataclass
class Peer:
    """A member as the model sees it."""

    offer: tuple
    heard: int
    order: int
    joining: list | None = None  # where the answer to its join will appear
    syncing: list | None = None
    synced: bool = False


@dataclass
class Model:
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    leader: str | None = None
    peers: dict[str, Peer] = field(default_factory=dict)
    since: int = 0
    count: int = 0

    def protocols_fit(self, offer):
        common = set.intersection(*({n for n, _ in p.offer} for p in self.peers.values()))
        return bool(common & {name for name, _ in offer})

    def drop(self, member, error):
        peer = self.peers.pop(member)
        if self.leader == member:
            self.leader = min(self.peers, key=lambda m: self.peers[m].order, default=None)
        return [(answers, error) for answers in (peer.joining, peer.syncing) if answers is not None]

    def rebalance(self, now):
        """Enter PreparingRebalance from any state; return the answers that are due."""
        due = []
        if self.state is not GroupState.PREPARING:
            for peer in self.peers.values():
                if peer.syncing is not None:
                    due.append((peer.syncing, ErrorCode.REBALANCE_IN_PROGRESS))
                    peer.syncing, peer.heard = None, now
                peer.synced = False
            self.state, self.since = GroupState.PREPARING, now
        return due + self.finish_if_all_joined(now)

    def finish_if_all_joined(self, now, *, force=False):
        due = []
        if force:
            for member in [m for m, p in self.peers.items() if p.joining is None]:
                due += self.drop(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if any(p.joining is None for p in self.peers.values()):
            return due
        self.generation += 1
        self.since = now
        if not self.peers:
            self.state = GroupState.EMPTY
            return due
        self.state = GroupState.COMPLETING
        for peer in self.peers.values():
            due.append((peer.joining, ErrorCode.NONE))
            peer.joining, peer.heard, peer.synced = None, now, False
        return due

    def next_event(self):
        times = [
            p.heard + SESSION_MS
            for p in self.peers.values()
            if p.joining is None and p.syncing is None
        ]
        if self.state in (GroupState.PREPARING, GroupState.COMPLETING):
            times.append(self.since + REBALANCE_MS)
        return min(times, default=None)

    def pass_time(self, now):
        silent = [
            m
            for m, p in self.peers.items()
            if p.joining is None and p.syncing is None and p.heard + SESSION_MS <= now
        ]
        due = []
        for member in silent:
            due += self.drop(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if silent:
            due += self.rebalance(now)
        if self.state is GroupState.PREPARING and self.since + REBALANCE_MS <= now:
            due += self.finish_if_all_joined(now, force=True)
        elif self.state is GroupState.COMPLETING and self.since + REBALANCE_MS <= now:
            for member in [m for m, p in self.peers.items() if not p.synced]:
                due += self.drop(member, ErrorCode.UNKNOWN_MEMBER_ID)
            due += self.rebalance(now)
        return due


class Comparison:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.driver = GroupDriver()
        self.model = Model(since=self.driver.now)
        self.everyone = []  # ids ever given out
        self.open = []  # answers not expected yet
        self.seen = dict.fromkeys(["join", "sync", "heartbeat", "leave", "expire", "rebalanced"], 0)

    def expect(self, due):
        for answers, error in due:
            assert len(answers) == 1, (due, answers)
            assert answers[0].error is error
            self.open = [waiting for waiting in self.open if waiting is not answers]
            if error is ErrorCode.NONE and hasattr(answers[0], "leader"):
                self.check_joined(answers[0])

    def check_joined(self, result):
        self.seen["rebalanced"] += 1
        model = self.model
        assert result.generation == model.generation
        assert result.leader == model.leader
        offers = [p.offer for _, p in sorted(model.peers.items(), key=lambda mp: mp[1].order)]
        assert result.protocol == elect([[name for name, _ in offer] for offer in offers])
        if result.member_id == result.leader:
            assert dict(result.members) == {
                m: dict(p.offer)[result.protocol] for m, p in model.peers.items()
            }
        else:
            assert result.members == ()

    def anyone(self):
        pool = [*self.model.peers] * 8 + self.everyone[-5:] + ["stranger"]
        return self.rng.choice(pool)

    def join(self):
        model, now = self.model, self.driver.now
        member = "" if self.rng.random() < 0.25 or not model.peers else self.anyone()
        known = model.peers.get(member)
        if known and self.rng.random() < 0.7:
            offer = known.offer
        else:
            offer = FOREIGN if self.rng.random() < 0.05 else self.rng.choice(OFFERS)
        if not member and len(model.peers) >= 8:
            return
        expected = None
        if model.peers and not model.protocols_fit(offer):
            expected = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member and known is None:
            expected = ErrorCode.UNKNOWN_MEMBER_ID
        again = (
            known is not None
            and known.offer == offer
            and (
                model.state is GroupState.COMPLETING
                or (model.state is GroupState.STABLE and model.leader != member)
            )
        )
        superseded = known.joining if known is not None else None
        answers = self.driver.join(
            member, protocols=offer, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS
        )
        if expected is not None:
            assert [a.error for a in answers] == [expected]
        elif again:
            known.heard = now
            self.expect([(answers, ErrorCode.NONE)])
        else:
            if superseded is not None:
                self.expect([(superseded, ErrorCode.REBALANCE_IN_PROGRESS)])
            if known is None:
                model.count += 1
                member = f"c-{model.count}"
                self.everyone.append(member)
                known = model.peers[member] = Peer(offer, now, model.count)
                model.leader = model.leader or member
            known.offer, known.joining = offer, answers
            self.open.append(answers)
            self.expect(model.rebalance(now))

    def sync(self):
        model, now = self.model, self.driver.now
        member = self.anyone()
        generation = model.generation if self.rng.random() < 0.9 else self.rng.randrange(100)
        peer = model.peers.get(member)
        given = {m: f"{m}@{model.generation}".encode() for m in model.peers}
        superseded = peer.syncing if peer else None
        answers = self.driver.sync(member, generation, given if member == model.leader else {})
        if peer is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif generation != model.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        elif model.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        else:
            peer.heard, peer.synced = now, True
            if model.state is GroupState.STABLE:
                assert answers[0].assignment == f"{member}@{generation}".encode()
                return
            if superseded is not None:
                self.expect([(superseded, ErrorCode.REBALANCE_IN_PROGRESS)])
            peer.syncing = answers
            self.open.append(answers)
            if member == model.leader:
                self.finish_sync(now)
            return
        assert [a.error for a in answers] == [error]

    def finish_sync(self, now):
        model = self.model
        model.state = GroupState.STABLE
        for member, peer in model.peers.items():
            if peer.syncing is not None:
                self.expect([(peer.syncing, ErrorCode.NONE)])
                assert peer.syncing[0].assignment == f"{member}@{model.generation}".encode()
                peer.syncing, peer.heard = None, now

    def heartbeat(self):
        model, member = self.model, self.anyone()
        generation = model.generation if self.rng.random() < 0.9 else self.rng.randrange(100)
        peer = model.peers.get(member)
        if peer is None:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        elif generation != model.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        else:
            peer.heard = self.driver.now
            preparing = model.state is GroupState.PREPARING
            error = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
        assert self.driver.heartbeat(member, generation) is error

    def leave(self):
        member = self.anyone()
        known = member in self.model.peers
        error = self.driver.leave(member)
        assert error is (ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID)
        if known:
            due = self.model.drop(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self.expect(due)
            self.expect(self.model.rebalance(self.driver.now))

    def expire(self):
        """Let time pass: a little, or to the next moment when something is due."""
        deadline = self.driver.group.next_deadline()
        assert deadline == self.model.next_event()
        now = self.driver.now + self.rng.choice([1, 100, 2500])
        if deadline is not None and self.rng.random() < 0.15:
            now = max(now, deadline)
        if deadline is None or now < deadline:
            self.driver.advance(now - self.driver.now)
            return
        self.driver.now = max(self.driver.now, deadline)
        self.driver.group.tick(self.driver.now)
        self.expect(self.model.pass_time(self.driver.now))

    def check(self):
        group, model = self.driver.group, self.model
        assert group.state is model.state
        assert group.generation == model.generation
        assert group.leader == model.leader
        assert set(group.members) == set(model.peers)
        assert all(answers == [] for answers in self.open)  # no request is answered early
        if group.state is GroupState.STABLE:
            assert all(m.assignment for m in group.members.values())

    def run(self, steps):
        actions = [self.join, self.sync, self.heartbeat, self.leave, self.expire]
        weights = PHASES[0]
        for step in range(steps):
            if step % 25 == 0:
                weights = self.rng.choice(PHASES)
            action = self.rng.choices(actions, weights=weights)[0]
            self.seen[action.__name__] += 1
            action()
            self.check()


def compare(seeds, steps):
    ended = set()
    for seed in seeds:
        comparison = Comparison(seed)
        comparison.run(steps)
        assert comparison.seen["rebalanced"] > steps // 100, comparison.seen
        ended.add(comparison.model.state)
    assert len(ended) > 2  # the histories did not all run into the same corner


def test_group_matches_model_over_random_steps():
    compare(range(10), 2_500)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_group_matches_model_for_long():
    compare(range(soak.SEED, soak.SEED + 10), soak.part_of(100_000))
