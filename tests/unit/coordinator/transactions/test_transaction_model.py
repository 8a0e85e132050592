"""Coordinators that crash between writes, replaced producers, and late markers.

Invariants are checked on the log of records, and on partitions with their messages and markers.
"""

import random
from dataclasses import dataclass, field

import pytest

from tests.support import soak
from zkbroker.coordinator.transactions.transaction import (
    PREPARED,
    REACHED_FROM,
    Transaction,
    TransactionMetadata,
)
from zkbroker.errors import ErrorCode
from zkbroker.protocol.transaction_topic import (
    TransactionState,
    decode_transaction,
    encode_transaction,
)

S = TransactionState
PARTITIONS = [("t", 0), ("t", 1), ("u", 0)]
TIMEOUT_MS, EXPIRY_MS = 500, 5000


@dataclass
class FakePartition:
    """A partition: its open transactions, and the outcome of each ended one."""

    epochs: dict = field(default_factory=dict)
    coordinator_epochs: dict = field(default_factory=dict)
    open: dict = field(default_factory=dict)
    outcome: dict = field(default_factory=dict)

    def mark(self, pid, epoch, commit, coordinator_epoch):
        if epoch < self.epochs.get(pid, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < self.coordinator_epochs.get(pid, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[pid] = epoch
        self.coordinator_epochs[pid] = coordinator_epoch
        for sent in self.open.pop(pid, ()):
            assert self.outcome.setdefault(sent, commit) == commit, "ended twice, in two ways"
        return ErrorCode.NONE


class SimulatedTransactions:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.now = 1000
        self.log = []  # encoded records of the one id, None for a tombstone
        self.partitions = {key: FakePartition() for key in PARTITIONS}
        self.next_pid = 100
        self.epoch = 0
        self.instances = []  # (pid, epoch) that was granted to each instance
        self.sent = 0
        self.messages = {}  # message -> (transaction, partition)
        self.of_instance = {}  # (pid, epoch) -> the transaction it writes
        self.ending = {}  # instance -> the requested end of its transaction, until it is confirmed
        self.committed = set()  # transactions whose commit was confirmed to their producer
        self.crashes = 0
        self.load()

    # -- the coordinator

    def load(self):
        self.epoch += 1
        last = self.log[-1] if self.log else None
        value = None if last is None else TransactionMetadata.from_value(decode_transaction(last))
        self.txn = Transaction(value)
        self.unmarked = set(value.partitions) if value and value.state in PREPARED else set()
        self.stale = []

    def crash(self):
        self.crashes += 1
        # Markers of the old coordinator may still arrive.
        current = self.txn.current
        late = [
            (key, current.producer_id, current.producer_epoch, current.committing, self.epoch)
            for key in self.unmarked
            if self.chance.random() < 0.5
        ]
        self.load()
        self.stale = late

    def decide(self, decision, answered=lambda: None):
        """Write a transition: it may fail, be left in doubt, or be cut short by a crash."""
        if decision.write is None:
            return decision.answer
        target = decision.write
        before = None if self.txn.current is None else self.txn.current.state
        assert before in REACHED_FROM[target.state]
        fate = self.chance.random()
        if fate < 0.04:
            self.crash()  # before the write
            return ErrorCode.NOT_COORDINATOR
        if fate < 0.08:
            self.txn.failed()  # not written
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        record = None if target.state is S.DEAD else encode_transaction(target.to_value())
        self.log.append(record)
        if fate < 0.12:
            self.crash()  # after the write, before the answer
            return ErrorCode.NOT_COORDINATOR
        if fate < 0.16:
            self.txn.failed()  # written, and the coordinator could not know
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.txn.written()
        if target.state is S.DEAD:
            self.txn = Transaction()
        if target.state in PREPARED:
            self.unmarked = set(target.partitions)
        return decision.answer

    # -- steps

    def init(self):
        new = None
        if self.txn.needs_producer_id:
            new, self.next_pid = self.next_pid, self.next_pid + 1
        if self.decide(self.txn.init(TIMEOUT_MS, self.now, new)) is ErrorCode.NONE:
            current = self.txn.current
            granted = (current.producer_id, current.producer_epoch)
            assert granted not in self.instances, "two instances with one identity"
            self.instances.append(granted)

    def someone(self):
        if not self.instances:
            return None
        return self.chance.choice([*self.instances[-3:], *self.instances[-1:] * 3])

    def add_and_send(self):
        instance = self.someone()
        if instance is None or instance in self.ending:
            return
        chosen = self.chance.sample(PARTITIONS, self.chance.randint(1, 3))
        code = self.decide(self.txn.add(*instance, chosen, self.now))
        if code is not ErrorCode.NONE:
            return
        assert instance == self.instances[-1], "a zombie may add"
        for key in chosen:
            self.send(instance, key)

    def send(self, instance, key):
        if self.txn.verify(*instance, [key]) is not ErrorCode.NONE:
            return
        assert instance[1] >= self.partitions[key].epochs.get(instance[0], -1)
        transaction = self.of_instance.setdefault(instance, (instance, self.sent))
        self.sent += 1
        self.messages[self.sent] = (transaction, key)
        self.partitions[key].epochs[instance[0]] = instance[1]
        self.partitions[key].open.setdefault(instance[0], []).append(self.sent)

    def send_late(self):
        instance = self.someone()
        if instance is not None and instance not in self.ending:
            self.send(instance, self.chance.choice(PARTITIONS))

    def end(self):
        instance = self.someone()
        if instance is None or instance not in self.of_instance:
            return
        # An unconfirmed end is requested again, as clients do.
        commit = self.ending.setdefault(instance, self.chance.random() < 0.7)
        code = self.decide(self.txn.end(*instance, commit=commit, now_ms=self.now))
        if code is ErrorCode.NONE:
            del self.ending[instance]
            assert instance[1] == self.txn.current.producer_epoch, "a zombie may end"
            transaction = self.of_instance.pop(instance)
            if commit:
                self.committed.add(transaction)

    def mark(self):
        if self.stale and self.chance.random() < 0.5:
            key, pid, epoch, commit, coordinator_epoch = self.stale.pop()
            self.partitions[key].mark(pid, epoch, commit, coordinator_epoch)
            return
        current = self.txn.current
        if current is None or current.state not in PREPARED or self.txn.pending is not None:
            return
        if self.unmarked:
            key = self.chance.choice(sorted(self.unmarked))
            code = self.partitions[key].mark(
                current.producer_id, current.producer_epoch, current.committing, self.epoch
            )
            assert code is ErrorCode.NONE, code
            if self.chance.random() < 0.9:  # else the answer is lost, and the marker sent again
                self.unmarked.discard(key)
        else:
            self.decide(self.txn.complete(self.now))

    def wait(self):
        self.now += self.chance.randint(1, 200)
        self.decide(self.txn.time_out(self.now))
        if self.chance.random() < 0.05:
            self.now += self.chance.randint(1, EXPIRY_MS)
            self.decide(self.txn.expire(self.now, EXPIRY_MS))

    def step(self):
        (action,) = self.chance.choices(
            [
                self.init,
                self.add_and_send,
                self.send_late,
                self.end,
                self.mark,
                self.wait,
                self.crash,
            ],
            [2, 30, 10, 30, 90, 3, 2],
        )
        action()

    def settle(self):
        """Let everything that is open come to its end."""
        for _ in range(100_000):
            current = self.txn.current
            if current is None or current.state not in {S.ONGOING, *PREPARED}:
                break
            self.now += 100
            self.decide(self.txn.time_out(self.now))
            self.mark()
        assert current is None or current.state not in {S.ONGOING, *PREPARED}

    def check(self):
        outcomes = {}
        for key, partition in self.partitions.items():
            assert not any(partition.open.values()), f"a transaction hangs in {key}"
            for sent, commit in partition.outcome.items():
                transaction = self.messages[sent][0]
                assert outcomes.setdefault(transaction, commit) == commit, "half committed"
        for transaction in self.committed:
            assert outcomes.get(transaction, True), "confirmed as committed, but aborted"


def play(seed, steps):
    world = SimulatedTransactions(seed)
    for _ in range(steps):
        world.step()
    world.settle()
    world.check()
    return world


@pytest.mark.parametrize("seed", range(5))
def test_transaction_is_atomic_under_random_crashes(seed):
    world = play(seed, 3000)
    assert world.crashes > 20
    assert len(world.committed) > 20


@pytest.mark.soak
def test_hundred_thousand_steps():
    world = play(99 + soak.SEED, soak.part_of(100_000))
    assert world.crashes > soak.part_of(1500)
