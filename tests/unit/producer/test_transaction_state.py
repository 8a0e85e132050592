"""Transaction states: each call and each failure in each state."""

import traceback

import pytest

from zkbroker.producer import (
    InvalidTransactionState,
    ProducerClosed,
    ProducerFenced,
    TransactionAbortable,
)
from zkbroker.producer.transaction_state import ProducerTransactionState, State
from zkbroker.runtime import get_runtime

FAILURE = TransactionAbortable("a batch is gone")
FENCED = ProducerFenced("another one came")


def machine_in(state: State, *, end_sent: bool = False) -> ProducerTransactionState:
    """Return a state machine in a state, reached by the usual calls."""
    found = ProducerTransactionState(get_runtime("threads").guard())
    if state is not State.NEW:
        found.initialized(7, 2)
    if state not in (State.NEW, State.READY):
        found.begin()
    found.end_sent = end_sent
    match state:
        case State.FAILED:
            assert found.fail(FAILURE)
        case State.COMMITTING:
            found.commit()
        case State.ABORTING:
            found.abort()
        case State.BROKEN:
            assert found.break_off(FENCED)
        case State.CLOSED:
            found.close()
    assert found.state is state
    return found


ALL = list(State)
# Call -> state before -> state after; all other calls are refused.
ALLOWED = {
    "begin": {State.READY: State.OPEN},
    "commit": {State.OPEN: State.COMMITTING, State.COMMITTING: State.COMMITTING},
    "abort": dict.fromkeys(
        (State.OPEN, State.FAILED, State.COMMITTING, State.ABORTING), State.ABORTING
    ),
}


def expected_refusal(call: str, state: State) -> type[Exception]:
    if state is State.BROKEN:
        return ProducerFenced
    if state is State.CLOSED:
        return ProducerClosed
    if state is State.FAILED:
        return TransactionAbortable
    return InvalidTransactionState


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize("call", [*ALLOWED, "check_open"])
def test_each_call_in_each_state(call, state):
    found = machine_in(state)
    function = (lambda: found.check_open("send_offsets")) if call == "check_open" else None
    function = function or getattr(found, call)
    wanted = ALLOWED.get(call, {State.OPEN: State.OPEN}).get(state)
    if wanted is not None:
        function()
        assert found.state is wanted
        return
    with pytest.raises(expected_refusal(call, state)) as caught:
        function()
    assert found.state is state
    if state in (State.NEW, State.READY, State.COMMITTING, State.OPEN, State.ABORTING):
        assert state.value in str(caught.value)


@pytest.mark.parametrize("state", ALL)
def test_producer_id_is_given_once(state):
    found = machine_in(state)
    if state is State.NEW:
        found.check_new()
        found.initialized(9, 0)
        assert (found.state, found.producer_id, found.producer_epoch) == (State.READY, 9, 0)
    else:
        with pytest.raises((InvalidTransactionState, ProducerFenced, ProducerClosed)):
            found.check_new()


@pytest.mark.parametrize("state", ALL)
def test_only_open_transaction_can_fail(state):
    found = machine_in(state)
    fails = state in (State.OPEN, State.COMMITTING)
    assert found.fail(FAILURE) is fails
    assert found.state is (State.FAILED if fails else state)


@pytest.mark.parametrize("state", ALL)
def test_fatal_error_is_raised_by_every_later_call(state):
    found = machine_in(state)
    ends = state not in (State.BROKEN, State.CLOSED)
    assert found.break_off(FENCED) is ends
    if not ends:
        return
    for call in (found.begin, found.commit, found.abort, found.check_committing, found.finish):
        with pytest.raises(ProducerFenced):
            call()


def test_commit_cannot_be_aborted_after_end_was_sent():
    found = machine_in(State.COMMITTING, end_sent=True)
    assert not found.fail(FAILURE)
    with pytest.raises(InvalidTransactionState, match=r"commit\(\) again"):
        found.abort()
    found.commit()
    found.finish()
    assert (found.state, found.committed, found.aborted) == (State.READY, 1, 0)


def test_commit_can_be_aborted_before_end_was_sent():
    found = machine_in(State.COMMITTING)
    found.abort()
    found.finish()
    assert (found.state, found.committed, found.aborted) == (State.READY, 0, 1)


def test_next_transaction_starts_with_cleared_state():
    found = machine_in(State.OPEN)
    found.added.add(("t", 0))
    found.groups.add("g")
    found.started = found.start_known = found.end_sent = True
    found.fail(FAILURE)
    found.abort()
    found.finish()
    found.begin()
    assert (found.added, found.groups, found.failure) == (set(), set(), None)
    assert (found.started, found.start_known, found.end_sent) == (False, False, False)


def test_concurrent_call_is_refused():
    found = machine_in(State.OPEN)
    two = pytest.raises(InvalidTransactionState, match=r"abort\(\) while commit\(\)")
    with found.call("commit"), two, found.call("abort"):
        pytest.fail("two at once")
    with found.call("abort"):
        pass


def test_error_is_unraised_until_a_call_raises_it():
    found = machine_in(State.FAILED)
    assert found.unraised() is FAILURE
    with pytest.raises(TransactionAbortable):
        found.commit()
    assert found.unraised() is None
    broken = machine_in(State.BROKEN)
    assert broken.unraised() is FENCED
    with pytest.raises(ProducerFenced):
        broken.begin()
    assert broken.unraised() is None


def test_forked_child_does_not_wait_for_lock_of_parent():
    guard = get_runtime("threads").guard()
    found = ProducerTransactionState(guard)
    with guard:
        found.abandon(get_runtime("threads").guard())
        with pytest.raises(ProducerClosed):
            found.begin()


@pytest.mark.parametrize(("state", "error"), [(State.FAILED, FAILURE), (State.BROKEN, FENCED)])
def test_failure_keeps_no_frames_of_earlier_calls(state, error):
    machine, frames = machine_in(state), set()
    for _ in range(3):
        with pytest.raises(type(error)):
            machine.commit()
        frames.add(len(list(traceback.walk_tb(error.__traceback__))))
    assert len(frames) == 1
