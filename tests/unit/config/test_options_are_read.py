"""An option that nobody reads is a promise that nobody keeps."""

import re
from pathlib import Path

import pytest

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.schema import options

SOURCES = "\n".join(
    path.read_text() for path in sorted((Path(__file__).parents[3] / "zkbroker").rglob("*.py"))
)


@pytest.mark.parametrize(
    "config",
    [
        BrokerConfig,
        ConsumerConfig,
        GroupConsumerConfig,
        LogConfig,
        LogManagerConfig,
        ProducerConfig,
    ],
)
def test_every_option_is_read_somewhere_or_says_that_it_has_no_effect(config):
    unread = [
        declared_option.keys[0][0]
        for declared, declared_option in options(config)
        if "without effect" not in declared_option.doc
        and not re.search(rf"\.{declared.name}\b", SOURCES)
    ]
    assert unread == []
