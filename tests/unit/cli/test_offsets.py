import pytest
from click.testing import CliRunner

from tests.support.fake_broker import CLOSE, FakeCluster
from tests.support.played_cluster import PlayedCluster
from zkbroker.cli.offset_places import chosen_partitions, parse_time
from zkbroker.cli.offsets import command
from zkbroker.errors import ConfigError
from zkbroker.protocol import ApiKey


@pytest.mark.parametrize(
    ("text", "time"), [("latest", -1), ("earliest", -2), ("-1", -1), ("0", 0), ("1500", 1500)]
)
def test_time_names_and_numbers(text, time):
    assert parse_time(text) == time


@pytest.mark.parametrize("text", ["", "soon", "-3", "1.5"])
def test_invalid_time_is_refused(text):
    with pytest.raises(
        ConfigError, match=r"give ms since 1970, or a date .*, or latest or earliest"
    ):
        parse_time(text)


def test_partition_list_selects_named_or_all_partitions():
    cluster = PlayedCluster(leaders={"t": (0, 0, 0)})
    assert chosen_partitions(cluster, "t", None) == [0, 1, 2]
    assert chosen_partitions(cluster, "t", "2,0") == [2, 0]
    with pytest.raises(ConfigError, match="no partition 7; it has 0 to 2"):
        chosen_partitions(cluster, "t", "0,7")
    with pytest.raises(ConfigError, match="give numbers"):
        chosen_partitions(cluster, "t", "0;1")


def test_offsets_are_read_from_a_moved_leader():
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
