"""Options of a load are checked before it begins."""

import pytest

from spark_loader.columns.spec import ValueColumns
from spark_loader.load.options import LoadOptions
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.data_formats import DATA_FORMATS
from spark_loader.sink.event_time import EventTime
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"output": ""}, "no output"),
        ({"topics": ()}, "name topics"),
        ({"whitelist": "t.*"}, "name topics"),
        ({"topics": (), "blacklist": "("}, "blacklist='\\('"),
        ({"format": "csv"}, ", ".join(DATA_FORMATS)),
        ({"compression": "lz9"}, "'lz9' is not allowed"),
        ({"on_out_of_range": "ignore"}, "'ignore' is not allowed"),
        ({"policies": {"t": "ignore"}}, "'ignore' is not allowed"),
        ({"policies": {"t:x": "latest"}}, "'x' is no partition"),
        ({"policies": {"u:1": "latest"}}, "topic u is not among those to load"),
        ({"group": "a/b"}, "leave '/' out"),
        ({"max_records": 0}, "max_records=0"),
        ({"split_bytes": -1}, "split_bytes=-1"),
        ({"generation": "0.6"}, "kafka.generation='0.6' is not allowed"),
        ({"generation": "0.7", "bootstrap": "h:1"}, "in place of kafka.bootstrap.servers"),
        ({"isolation_level": "committed"}, "isolation.level='committed'"),
        (
            {"isolation_level": "read_committed", "generation": "0.7", "zookeeper": "z"},
            "0.7, which has no transactions",
        ),
    ],
)
def test_invalid_options_are_refused(given, reason):
    with pytest.raises(ConfigError, match=reason):
        LoadOptions(**{"output": "/lake", "topics": ("t",), **given})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"format": "raw", "columns": ValueColumns.json("a:int")}, "format raw"),
        ({"event_time": EventTime.column("at")}, "columns are none"),
        (
            {"event_time": EventTime.column("a"), "columns": ValueColumns.json("a:int")},
            "column a: there is no such column of type timestamp; the columns are a",
        ),
    ],
)
def test_inconsistent_columns_and_event_time_are_refused(given, reason):
    with pytest.raises(ConfigError, match=reason):
        LoadOptions(output="/lake", topics=("t",), **given)


def test_most_specific_policy_applies():
    options = LoadOptions(
        output="/lake",
        topics=("t", "u"),
        policies={"t": "earliest", "t:3": "latest"},
        on_out_of_range="nearest",
    )
    sources = [TopicPartition("t", 3), TopicPartition("t", 4), TopicPartition("u", 3)]
    assert [options.policy(each) for each in sources] == ["latest", "earliest", "nearest"]


def test_whitelist_and_blacklist_match_whole_names():
    options = LoadOptions(output="/lake", whitelist="click.*", blacklist=".*-old")
    names = ("clicks", "my-clicks", "clicks-old")
    assert [name for name in names if options.wants(name)] == ["clicks"]


def test_connect_options_come_from_load_options():
    connect = LoadOptions(output="/lake", topics=["t"], bootstrap="a:1, b:2,").connect()
    assert (connect.zookeeper, connect.bootstrap) == (None, ("a:1", "b:2"))
