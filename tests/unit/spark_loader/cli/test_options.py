"""Options of the command line become options of a load."""

import click
import pytest
from click.testing import CliRunner

from spark_loader.cli.options import (
    event_time,
    output_option,
    spark_settings,
    starting_bound,
    storage_settings,
)
from spark_loader.reading.positions import (
    EARLIEST_BOUND,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    TopicPartition,
)
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", EARLIEST_BOUND),
        ("latest", LATEST_BOUND),
        ("1500", AtTime(1500)),
        ("1970-01-01T00:00:01Z", AtTime(1000)),
        ("1970-01-01T01:00:01+01:00", AtTime(1000)),
        ("1970-01-01", AtTime(0)),
        ('{"t": {"0": 5}}', AtOffsets({TopicPartition("t", 0): 5})),
    ],
)
def test_starting_bound_is_parsed(text, bound):
    assert starting_bound(text) == bound


def test_starting_time_without_zone_uses_time_zone_option():
    assert starting_bound("1970-01-01T02:00", "Europe/Berlin") == AtTime(3_600_000)
    assert starting_bound("1970-01-01T02:00Z", "Europe/Berlin") == AtTime(7_200_000)


def test_invalid_starting_bound_is_refused():
    with pytest.raises(ConfigError, match="give earliest, latest"):
        starting_bound("yesterday")


def test_spark_settings_merge_file_and_command_line(tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("# a comment\nspark.a  1\nspark.b=2\nspark.c: 3 \n")
    found = spark_settings({"properties_file": file, "conf": ["spark.b=9", "spark.d=x=y"]})
    assert found == {"spark.a": "1", "spark.b": "9", "spark.c": "3", "spark.d": "x=y"}
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        spark_settings({"conf": ["spark.b"]})
    with pytest.raises(ConfigError, match=r"a\.b is no property of Spark"):
        spark_settings({"conf": ["a.b=c"]})


def test_storage_options_are_key_value_pairs():
    given = {"storage": ["AWS_ENDPOINT_URL=http://h:1/?a=b"]}
    assert storage_settings(given) == {"AWS_ENDPOINT_URL": "http://h:1/?a=b"}
    with pytest.raises(ConfigError, match="--storage-option 'x' is not KEY=VALUE"):
        storage_settings({"storage": ["x"]})


def test_output_directory_must_be_given_once():
    @click.command()
    @output_option
    def show(output):
        click.echo(output)

    def run(*arguments):
        return CliRunner().invoke(show, arguments).output

    assert run("lake") == run("--output", "lake") == run("lake", "--output", "lake") == "lake\n"
    assert "both a and --output b are given" in run("a", "--output", "b")
    assert "no directory is named" in run()


def test_conflicting_event_time_options_are_refused():
    with pytest.raises(ConfigError, match="give one of"):
        event_time({"event_time_json": "at", "access_log": True})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"event_time_regex": ""}, "needs a pattern"),
        ({"event_time_json": ""}, "needs a field"),
        ({"event_time_format": "%d"}, "give one of them, or leave it out"),
        ({"event_time_json": "at", "event_time_format": "%Q"}, "'Q' is a bad directive"),
    ],
)
def test_invalid_event_time_options_are_refused(given, reason):
    with pytest.raises(ConfigError, match=reason):
        event_time(given)
