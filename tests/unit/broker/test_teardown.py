"""The steps of a start are undone in reverse order, whichever fails."""

import pytest

from zkbroker.broker.teardown import Teardown
from zkbroker.errors import RegistryError


@pytest.mark.parametrize("failure", [RegistryError("away"), LookupError("a defect")])
def test_failing_step_does_not_stop_the_others(failure, caplog):
    done = []

    def fail():
        raise failure

    teardown = Teardown()
    teardown.add("first", lambda: done.append("first"))
    teardown.add("second", fail)
    teardown.add("third", lambda: done.append("third"))
    teardown.unwind()
    assert done == ["third", "first"]
    assert "shutdown step failed step=second" in caplog.text
    teardown.unwind()
    assert done == ["third", "first"]
