"""Unknown options are refused with a suggestion."""

import pytest

from spark_loader.reading.option_names import check_names
from spark_loader.reading.options import SourceOptions
from spark_loader.reading.positions import AtTime
from zkbroker.errors import ConfigError

BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("subscibe", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("includeHeader", "includeHeaders"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.max.poll.record", "kafka.max.poll.records"),
        ("kafka.compresion.type", "kafka.compression.type"),
    ],
)
def test_misspelt_option_is_refused_with_suggestion(name, meant):
    with pytest.raises(ConfigError, match=f": did you mean {meant}[?]"):
        SourceOptions.parse({**BASE, name: "x"}, streaming=False)


def test_unknown_option_is_refused():
    with pytest.raises(ConfigError, match=r"there is no option colour$"):
        check_names(["colour"], {})


def test_unused_kafka_options_are_listed_and_spark_options_pass():
    given = ["path", "checkpointlocation", "kafka.session.timeout.ms", "kafka.of.my.own", "topic"]
    assert check_names(given, {}) == ["kafka.of.my.own", "kafka.session.timeout.ms"]
    with pytest.raises(ConfigError, match="topic is not supported: because"):
        check_names(given, {"topic": "because"})


@pytest.mark.parametrize(
    ("text", "ms"), [("1500", 1500), ("1970-01-01T00:00:02", 2000), ("1970-01-01T01:00+01:00", 0)]
)
def test_starting_timestamp_accepts_number_and_text(text, ms):
    parsed = SourceOptions.parse({**BASE, "startingTimestamp": text}, streaming=False)
    assert parsed.starting == AtTime(ms)


def test_invalid_starting_timestamp_is_refused():
    with pytest.raises(ConfigError, match="startingTimestamp='soon' is not a time: give"):
        SourceOptions.parse({**BASE, "startingTimestamp": "soon"}, streaming=False)
