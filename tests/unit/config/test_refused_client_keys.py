"""Settings that promise what is not there are refused by every client."""

import pytest

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError

CLIENTS = [
    (ProducerConfig, {"metadata.broker.list": "b:1"}),
    (ConsumerConfig, {"group.id": "g", "zookeeper.connect": "z:1"}),
    (GroupConsumerConfig, {"group.id": "g", "bootstrap.servers": "b:1"}),
]


@pytest.mark.parametrize(("config", "given"), CLIENTS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("security.protocol", "SSL"),
        ("security.protocol", "SASL_PLAINTEXT"),
    ],
)
def test_what_would_be_a_broken_promise_is_refused_by_name(config, given, key, value):
    with pytest.raises(ConfigError, match=f"{key}={value} is not supported"):
        config.from_properties(given | {key: value})


@pytest.mark.parametrize(("config", "given"), CLIENTS)
def test_what_says_nothing_new_is_taken_without_a_word(config, given):
    warnings: list[str] = []
    same = {"security.protocol": "PLAINTEXT"}
    found = config.from_properties(given | same, warn=warnings.append)
    assert found == config.from_properties(given)
    assert warnings == []
