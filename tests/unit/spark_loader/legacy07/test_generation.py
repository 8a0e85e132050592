"""The plug-in of Kafka 0.7 refuses settings that 0.7 does not support."""

import pytest

from spark_loader.legacy07.generation import GENERATION
from spark_loader.reading.options import SourceOptions
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bootstrap": ("h:1",)}, "give zookeeper.connect in place of kafka.bootstrap.servers"),
        ({"zookeeper": ""}, "found by its ZooKeeper"),
        ({"read_committed": True}, "no transactions"),
    ],
)
def test_unsupported_settings_are_refused(given, message):
    allowed = {"zookeeper": "z", "bootstrap": (), "read_committed": False}
    GENERATION.check(**allowed)
    with pytest.raises(ConfigError, match=message):
        GENERATION.check(**{**allowed, **given})


def test_source_options_are_checked_by_generation():
    given = {"kafka.generation": "0.7", "subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    with pytest.raises(ConfigError, match="in place of"):
        SourceOptions.parse(given, streaming=False)
