"""Connection rates of single listeners."""

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.connection_rates import listener_of_rate, listener_rates
from zkbroker.errors import ConfigError

KEY = "listener.name.external.max.connection.creation.rate"


def test_listener_rate_is_read():
    assert listener_of_rate(KEY) == "EXTERNAL"
    assert listener_of_rate("max.connection.creation.rate") is None
    assert listener_rates({KEY: "7", "port": "1"}, ["EXTERNAL", "INSIDE"]) == {"EXTERNAL": 7}


@pytest.mark.parametrize(
    ("text", "listeners", "message"),
    [("7", ["INSIDE"], "there is no listener EXTERNAL; there are INSIDE"),
     ("0", ["EXTERNAL"], "a whole number from 1"),
     ("x", ["EXTERNAL"], "a whole number from 1")],
)  # fmt: skip
def test_invalid_listener_rate_is_refused(text, listeners, message):
    with pytest.raises(ConfigError, match=message):
        listener_rates({KEY: text}, listeners)


def test_broker_reads_listener_rate_without_warning():
    warned = []
    given = {
        "zookeeper.connect": "z",
        "listeners": "EXTERNAL://:9092",
        "listener.security.protocol.map": "EXTERNAL:PLAINTEXT",
        KEY: "7",
    }
    BrokerConfig.from_properties(given, warn=warned.append)
    assert warned == []
    with pytest.raises(ConfigError, match="there is no listener EXTERNAL"):
        BrokerConfig.from_properties({"zookeeper.connect": "z", KEY: "7"})
