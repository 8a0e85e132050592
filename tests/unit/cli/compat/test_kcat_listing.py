"""`kcat -Q` while leaders move."""

import pytest

from tests.support.fake_broker import CLOSE, FakeCluster
from zkbroker.cli.compat.kcat_listing import query_offsets
from zkbroker.errors import ConfigError, UnknownTopicOrPartition
from zkbroker.protocol import ApiKey


@pytest.fixture
def cluster():
    with FakeCluster(brokers=2) as made:
        made.create("t", [0, 1])
        yield made


def test_offsets_of_two_leaders(cluster, capsys):
    query_offsets(cluster.addresses, ["t:0:-1", "t:1:-2"], as_json=False)
    assert capsys.readouterr().out == "t [0] offset 0\nt [1] offset 0\n"


def test_request_follows_a_moved_leader(cluster, capsys):
    def move(request):
        cluster.leaders["t"][0] = 1  # and refuses, since it leads no longer

    cluster.faults[ApiKey.LIST_OFFSETS, 0] = move
    query_offsets(cluster.addresses, ["t:0:-1"], as_json=True)
    assert capsys.readouterr().out.startswith('{"t":')


def test_lost_connection_is_opened_again(cluster, capsys):
    faults = [CLOSE, CLOSE]
    cluster.faults[ApiKey.LIST_OFFSETS, 1] = lambda request: faults.pop() if faults else None
    query_offsets(cluster.addresses, ["t:1:-1"], as_json=False)
    assert capsys.readouterr().out == "t [1] offset 0\n"


def test_unknown_partition_or_form_is_refused(cluster):
    with pytest.raises(UnknownTopicOrPartition, match=r"t \[7\] does not exist"):
        query_offsets(cluster.addresses, ["t:7:-1"], as_json=False)
    for text in ("t", "t:\N{SUPERSCRIPT TWO}:5"):
        with pytest.raises(ConfigError, match="TOPIC:PARTITION:TIMESTAMP"):
            query_offsets(cluster.addresses, [text], as_json=False)
