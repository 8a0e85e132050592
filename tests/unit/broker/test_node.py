"""The order of things in a broker, without a broker."""

import pytest

from zkbroker.broker import BrokerNode
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import RegistryError


@pytest.mark.parametrize("failure", [RegistryError("away"), LookupError("a defect")])
def test_a_step_that_fails_keeps_none_of_the_others_from_being_undone(failure, caplog):
    done = []

    def fail():
        raise failure

    node = BrokerNode(BrokerConfig(zookeeper_connect="127.0.0.1:1"))
    node._undo = [("first", lambda: done.append("first")), ("second", fail)]
    node.stop()
    assert done == ["first"]
    assert "shutdown step failed step=second" in caplog.text
