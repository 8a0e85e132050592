"""Commits that wait for the log's lock, while their groups change."""

import threading

import pytest

from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ErrorCode

from .test_coordinator import CoordinatorSetup

NUMBER = key_partition("g", 4)


class NotedLock:
    """A lock with an event for a task that waits for it."""

    def __init__(self):
        self._lock = threading.RLock()
        self.awaited = threading.Event()

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


@pytest.fixture
def setup():
    made = CoordinatorSetup().host()
    made.logs[NUMBER].lock = NotedLock()
    return made


def commit_after(setup, change, **commit):
    """Return the answer to a commit that waits for the log while a change is made."""
    answers = []
    task = threading.Thread(target=lambda: answers.append(setup.commit(**commit)))
    lock = setup.logs[NUMBER].lock
    with lock:
        task.start()
        assert lock.awaited.wait(20)
        change()
    task.join(20)
    (answer,) = answers
    return answer


def test_commit_of_a_member_that_was_replaced_meanwhile_is_refused(setup):
    joined = setup.stable()

    def replace():
        setup.coordinator.leave("g", joined.member_id)
        successor = setup.stable()
        assert setup.offset() is None
        assert setup.commit(member=successor.member_id, generation=3, offset=7) is ErrorCode.NONE

    answer = commit_after(setup, replace, member=joined.member_id, generation=1, offset=5)
    assert answer is ErrorCode.UNKNOWN_MEMBER_ID
    assert setup.offset() == 7
    assert CoordinatorSetup(setup.logs).host().offset() == 7


def test_commit_to_a_partition_that_was_lost_meanwhile_is_not_coordinated_here(setup):
    joined = setup.stable()
    answer = commit_after(
        setup,
        lambda: setup.coordinator.release(NUMBER),
        member=joined.member_id,
        generation=1,
    )
    assert answer is ErrorCode.NOT_COORDINATOR
