"""One transactional id: checks in their order, epochs, fencing, time-outs."""

from dataclasses import replace

import pytest

from zkbroker.coordinator.transactions.transaction import (
    MAX_EPOCH,
    REACHED_FROM,
    Transaction,
    TransactionMetadata,
)
from zkbroker.errors import ErrorCode
from zkbroker.protocol.transaction_topic import TransactionState as S

PID = 4000
A, B = ("t", 0), ("u", 3)


def metadata(state=S.EMPTY, *, epoch=0, partitions=(), start=-1, updated=1000):
    return TransactionMetadata(
        producer_id=PID,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset(partitions),
        last_update_ms=updated,
        start_ms=start,
    )


def transaction(state=S.EMPTY, **more):
    if state is S.ONGOING:
        more.setdefault("partitions", {A})
    if state is not S.EMPTY:
        more.setdefault("start", 1000)
    return Transaction(metadata(state, **more))


def done(txn, decision):
    """Apply the transition, if there is one; return the answer."""
    if decision.write is not None:
        txn.written()
    return decision.answer


def test_new_id_gets_new_producer_id_and_epoch_0():
    txn = Transaction()
    assert txn.needs_producer_id
    decision = txn.init(60_000, 5, PID)
    assert decision.write == metadata(updated=5)
    assert txn.current is None
    assert done(txn, decision) is ErrorCode.NONE
    assert txn.current == metadata(updated=5)
    with pytest.raises(ValueError, match="new producer id"):
        Transaction().init(1, 5)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_each_init_gets_next_epoch_and_own_timeout(state):
    txn = transaction(state, epoch=7)
    assert not txn.needs_producer_id
    assert done(txn, txn.init(30_000, 50)) is ErrorCode.NONE
    assert txn.current == replace(metadata(epoch=8, updated=50), timeout_ms=30_000)


def test_exhausted_producer_id_is_replaced():
    txn = transaction(epoch=MAX_EPOCH - 1)
    assert not txn.needs_producer_id
    assert done(txn, txn.init(1, 2)) is ErrorCode.NONE
    assert txn.current.producer_epoch == MAX_EPOCH == 32766
    assert txn.needs_producer_id
    assert done(txn, txn.init(1, 2, 9000)) is ErrorCode.NONE
    assert (txn.current.producer_id, txn.current.producer_epoch) == (9000, 0)


def test_last_epoch_can_be_fenced():
    txn = transaction(S.ONGOING, epoch=MAX_EPOCH)
    done(txn, txn.init(1, 2))
    assert txn.current.producer_epoch == 32767
    done(txn, txn.complete(3))
    assert txn.needs_producer_id


def test_init_aborts_open_transaction_under_fencing_epoch():
    txn = transaction(S.ONGOING, epoch=4)
    decision = txn.init(60_000, 2000)
    assert decision.answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert decision.write == metadata(
        S.PREPARE_ABORT, epoch=5, partitions={A}, start=1000, updated=2000
    )
    done(txn, decision)
    assert txn.init(60_000, 2001).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    done(txn, txn.complete(2002))
    assert done(txn, txn.init(60_000, 2003)) is ErrorCode.NONE
    assert txn.current.producer_epoch == 6


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_first_partitions_begin_transaction(state):
    txn = transaction(state)
    assert done(txn, txn.add(PID, 0, [A], 2000)) is ErrorCode.NONE
    assert txn.current == metadata(S.ONGOING, partitions={A}, start=2000, updated=2000)
    assert done(txn, txn.add(PID, 0, [B], 3000)) is ErrorCode.NONE
    assert txn.current == metadata(S.ONGOING, partitions={A, B}, start=2000, updated=3000)


def test_known_partitions_are_not_written_again():
    txn = transaction(S.ONGOING, partitions={A, B})
    decision = txn.add(PID, 0, [B, A], 5000)
    assert decision.answer is ErrorCode.NONE
    assert decision.write is None


def test_add_is_refused_with_first_matching_error():
    assert Transaction().add(PID, 0, [A], 1).answer is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    txn = transaction(S.PREPARE_COMMIT, epoch=3)
    assert txn.add(PID + 1, 9, [A], 1).answer is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert txn.add(PID, 2, [A], 1).answer is ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.add(PID, 4, [A], 1).answer is ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.add(PID, 3, [A], 1).answer is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_ends_once(commit):
    txn = transaction(S.ONGOING)
    decision = txn.end(PID, 0, commit=commit, now_ms=7)
    assert txn.end(PID, 0, commit=commit, now_ms=7).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert done(txn, decision) is ErrorCode.NONE
    assert txn.current.state is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)
    assert txn.current.partitions == {A}
    assert txn.end(PID, 0, commit=commit, now_ms=8).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert txn.end(PID, 0, commit=not commit, now_ms=8).answer is ErrorCode.INVALID_TXN_STATE
    assert done(txn, txn.complete(9)) is ErrorCode.NONE
    assert txn.current.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert (txn.current.partitions, txn.current.start_ms) == (frozenset(), 1000)
    again = txn.end(PID, 0, commit=commit, now_ms=8)
    assert (again.answer, again.write) == (ErrorCode.NONE, None)
    assert txn.end(PID, 0, commit=not commit, now_ms=8).answer is ErrorCode.INVALID_TXN_STATE


def test_end_is_refused_with_reason():
    assert (
        Transaction().end(PID, 0, commit=True, now_ms=1).answer
        is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    txn = transaction(epoch=3)
    assert (
        txn.end(PID + 1, 3, commit=True, now_ms=1).answer is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert txn.end(PID, 2, commit=True, now_ms=1).answer is ErrorCode.INVALID_PRODUCER_EPOCH
    # An epoch of the future is refused for the state, not for itself.
    assert txn.end(PID, 4, commit=True, now_ms=1).answer is ErrorCode.INVALID_TXN_STATE


def test_timed_out_transaction_is_aborted_and_producer_fenced():
    txn = transaction(S.ONGOING)
    assert txn.time_out(61_000).write is None
    done(txn, txn.time_out(61_001))
    assert (txn.current.state, txn.current.producer_epoch) == (S.PREPARE_ABORT, 1)
    assert txn.add(PID, 0, [A], 61_002).answer is ErrorCode.INVALID_PRODUCER_EPOCH
    ended = txn.end(PID, 0, commit=True, now_ms=61_002)
    assert ended.answer is ErrorCode.INVALID_PRODUCER_EPOCH
    for state in set(S) - {S.ONGOING, S.DEAD, S.PREPARE_EPOCH_FENCE}:
        assert transaction(state).time_out(10**9).write is None


def test_unused_id_expires():
    for state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        txn = transaction(state)
        assert txn.expire(1999, 1000).write is None
        assert txn.expire(2000, 1000).write.state is S.DEAD
        assert txn.init(1, 2001).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    for state in (S.ONGOING, S.PREPARE_ABORT, S.PREPARE_COMMIT):
        assert transaction(state).expire(10**9, 1).write is None


def test_transition_takes_effect_when_written():
    txn = transaction()
    txn.add(PID, 0, [A], 5)
    assert txn.current.state is S.EMPTY
    assert txn.init(1, 6).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert txn.add(PID, 0, [A], 6).answer is ErrorCode.CONCURRENT_TRANSACTIONS
    assert txn.verify(PID, 0, [A]) is ErrorCode.INVALID_TXN_STATE
    txn.failed()
    assert txn.current == metadata()
    assert done(txn, txn.add(PID, 0, [A], 7)) is ErrorCode.NONE
    with pytest.raises(ValueError, match="pending"):
        txn.written()


def test_verify_allows_only_partitions_of_ongoing_transaction():
    txn = transaction(S.ONGOING, epoch=2)
    assert Transaction().verify(PID, 2, [A]) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert txn.verify(PID + 1, 2, [A]) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert txn.verify(PID, 1, [A]) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.verify(PID, 2, [A]) is ErrorCode.NONE
    assert txn.verify(PID, 2, [A, B]) is ErrorCode.INVALID_TXN_STATE
    txn.add(PID, 2, [B], 5)
    assert txn.verify(PID, 2, [A]) is ErrorCode.NONE
    assert txn.verify(PID, 2, [B]) is ErrorCode.INVALID_TXN_STATE
    txn.written()
    txn.end(PID, 2, commit=True, now_ms=6)
    assert txn.verify(PID, 2, [A]) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("state", set(S) - {S.DEAD, S.PREPARE_EPOCH_FENCE})
def test_stored_value_round_trips(state):
    partitions = () if state in (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT) else (A, B, ("t", 1))
    known = transaction(state, partitions=partitions).current
    value = known.to_value()
    assert TransactionMetadata.from_value(value) == known
    assert (value.topics is None) == (state is S.EMPTY)
    if partitions:
        assert [(each.topic, each.partitions) for each in value.topics] == [
            ("t", [0, 1]),
            ("u", [3]),
        ]


def test_forbidden_transition_is_refused():
    for target, before in REACHED_FROM.items():
        for state in (None, *S):
            txn = Transaction(None if state is None else metadata(state))
            if state in before:
                txn._write(metadata(target))
            else:
                with pytest.raises(ValueError, match="does not follow"):
                    txn._write(metadata(target))


def test_fencing_epoch_begins_no_transaction():
    txn = transaction(S.COMPLETE_ABORT, epoch=MAX_EPOCH + 1)
    assert txn.add(PID, MAX_EPOCH + 1, [A], 2000).answer is ErrorCode.INVALID_PRODUCER_EPOCH
    assert txn.pending is None


def test_transaction_stored_under_last_epoch_is_aborted():
    txn = transaction(S.ONGOING, epoch=MAX_EPOCH + 1)
    decision = txn.time_out(2_000_000)
    assert decision.write is not None
    assert decision.write.producer_epoch == MAX_EPOCH + 1
    done(txn, decision)
    done(txn, txn.complete(2_000_001))
    assert txn.needs_producer_id
