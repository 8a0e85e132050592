"""A delayed operation waits until it is complete, or until its deadline."""

import pytest

from tests.support.replicas import SteppedRuntime
from zkbroker.replica.delayed import DelayedOperation


@pytest.mark.parametrize("woken", [True, False])
def test_operation_is_checked_again_at_deadline(woken):
    checks = []
    operation = DelayedOperation(SteppedRuntime(1000))

    def done():
        checks.append(1)
        if woken:
            operation.wake()
        return len(checks) > 2

    assert operation.wait(done, 500 if not woken else 100_000) is woken
    assert len(checks) == (3 if woken else 2)
