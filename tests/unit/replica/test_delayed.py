"""An operation waits until it is done, or until its deadline."""

import pytest

from tests.support.replicas import SteppedRuntime
from zkbroker.replica.delayed import DelayedOperation


@pytest.mark.parametrize("woken", [True, False])
def test_an_operation_looks_once_more_when_its_time_is_over(woken):
    looks = []
    operation = DelayedOperation(SteppedRuntime(1000))

    def done():
        looks.append(1)
        if woken:
            operation.wake()
        return len(looks) > 2

    assert operation.wait(done, 500 if not woken else 100_000) is woken
    assert len(looks) == (3 if woken else 2)
