"""Offsets as `kcat -Q` prints them."""

import json

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.cli.compat.kcat_listing import query_offsets
from zkbroker.errors import ConfigError, UnknownTopicOrPartition


@pytest.fixture
def cluster():
    with FakeCluster(brokers=2) as made:
        made.create("t", [0, 1])
        yield made


def test_offsets_of_two_leaders(cluster, capsys):
    query_offsets(cluster.addresses, ["t:0:-1", "t:1:-2"], as_json=False)
    assert capsys.readouterr().out == "t [0] offset 0\nt [1] offset 0\n"
    query_offsets(cluster.addresses, ["t:1:-1"], as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"t": {"topic": "t", "1": {"partition": 1, "offset": 0}}}


def test_unknown_partition_or_form_is_refused(cluster):
    with pytest.raises(UnknownTopicOrPartition, match=r"t \[7\] does not exist"):
        query_offsets(cluster.addresses, ["t:7:-1"], as_json=False)
    for text in ("t", "t:\N{SUPERSCRIPT TWO}:5"):
        with pytest.raises(ConfigError, match="TOPIC:PARTITION:TIMESTAMP"):
            query_offsets(cluster.addresses, [text], as_json=False)
