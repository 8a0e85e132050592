import time

import pytest
from click.testing import CliRunner

from tests.support.fake_broker import CLOSE, FakeCluster
from zkbroker.admin.reset_offsets import Way, read_offsets
from zkbroker.cli.offset_places import chosen_partitions, parse_time
from zkbroker.cli.offset_reset import parse_target
from zkbroker.cli.offsets import command
from zkbroker.client import PartitionInfo
from zkbroker.errors import ConfigError
from zkbroker.protocol import ApiKey


class Cluster:
    def partitions(self, topic):
        return [PartitionInfo(topic, number, 0) for number in range(3)]


@pytest.mark.parametrize(
    ("text", "time"), [("latest", -1), ("earliest", -2), ("-1", -1), ("0", 0), ("1500", 1500)]
)
def test_times_by_name_and_number(text, time):
    assert parse_time(text) == time


@pytest.mark.parametrize("text", ["", "soon", "-3", "1.5"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(
        ConfigError, match=r"give ms since 1970, or a date .*, or latest or earliest"
    ):
        parse_time(text)


def test_partitions_are_those_named_or_all():
    assert chosen_partitions(Cluster(), "t", None) == [0, 1, 2]
    assert chosen_partitions(Cluster(), "t", "2,0") == [2, 0]
    with pytest.raises(ConfigError, match="no partition 7; it has 0 to 2"):
        chosen_partitions(Cluster(), "t", "0,7")
    with pytest.raises(ConfigError, match="give numbers"):
        chosen_partitions(Cluster(), "t", "0;1")


def test_a_leader_that_moves_or_goes_is_followed():
    with FakeCluster(brokers=2) as cluster:
        cluster.create("t", [0, 1])
        lost = [CLOSE]

        def move(request):
            cluster.leaders["t"][0] = 1  # and refuses, since it leads no longer

        cluster.faults[ApiKey.LIST_OFFSETS, 0] = move
        cluster.faults[ApiKey.LIST_OFFSETS, 1] = lambda request: lost.pop() if lost else None
        options = ["get", "-b", cluster.addresses, "-t", "t"]
        found = CliRunner().invoke(command, options, catch_exceptions=False)
    assert found.output == "t:0:0\nt:1:0\n"


@pytest.mark.parametrize(
    ("text", "way", "value"),
    [
        ("earliest", Way.TIME, -2),
        ("latest", Way.TIME, -1),
        ("2026-11-23", Way.TIME, 1795392000000),
        ("2026-11-23T10:00:00+01:00", Way.TIME, 1795424400000),
        ("1431857100000", Way.TIME, 1431857100000),
        ("current", Way.CURRENT, 0),
        ("offset:5", Way.OFFSET, 5),
        ("shift:-5", Way.SHIFT, -5),
        ("shift:+5", Way.SHIFT, 5),
    ],
)
def test_targets_of_a_reset(text, way, value):
    target = parse_target(text)
    assert (target.way, target.value) == (way, value)


@pytest.mark.parametrize("text", ["PT2H", "2h", "P0DT1H60M", "7200s"])
def test_a_duration_goes_back_from_now(text, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 10_000.0)
    assert parse_target(f"duration:{text}").value == 10_000_000 - 7_200_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("offset:-1", "give offset:N"),
        ("offset:", "give offset:N"),
        ("shift:x", "give shift:N"),
        ("duration:5", "not a duration"),
        ("duration:P", "not a duration"),
    ],
)
def test_what_is_no_target_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        parse_target(text)


def test_offsets_of_a_file():
    assert read_offsets(["visits,0,5\n", "\n", "visits,1,0\n"]) == {
        ("visits", 0): 5,
        ("visits", 1): 0,
    }
    with pytest.raises(ConfigError, match="line 2 is not topic,partition,offset"):
        read_offsets(["visits,0,5\n", "visits,1\n"])
    with pytest.raises(ConfigError, match="line 2 names visits-0 again"):
        read_offsets(["visits,0,5\n", "visits,0,6\n"])
