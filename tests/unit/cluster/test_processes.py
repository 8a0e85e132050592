"""The settings of a cluster of processes."""

import tempfile

import pytest

from zkbroker.cluster import BrokerProcess, ClusterProcesses
from zkbroker.errors import ConfigError, ZkbrokerError
from zkbroker.testing import LocalCluster


def test_cluster_needs_a_broker(tmp_path):
    with pytest.raises(ConfigError, match="whole number from 1"):
        ClusterProcesses(tmp_path, brokers=0)


def test_number_of_ports_must_match_brokers(tmp_path):
    with pytest.raises(ConfigError, match="each of the 2 brokers, not 1"):
        ClusterProcesses(tmp_path, brokers=2, ports=[9092])


def test_broker_never_started_has_no_address(tmp_path):
    broker = BrokerProcess(tmp_path, {"broker.id": "1"})
    assert not broker.alive
    with pytest.raises(ZkbrokerError, match="not been started"):
        _ = broker.address
    assert broker.stop()


def test_property_values_are_texts_numbers_or_booleans(tmp_path):
    given = {
        "num.partitions": 4,
        "delete.topic.enable": False,
        "log.retention.hours": "-1",
        "log.cleaner.io.buffer.load.factor": 0.5,
    }
    cluster = ClusterProcesses(tmp_path, properties=given)
    assert [cluster._properties[key] for key in given] == ["4", "false", "-1", "0.5"]
    with pytest.raises(ConfigError, match=r"log\.dirs=\['a'\] is not allowed: give a text, a nu"):
        ClusterProcesses(tmp_path, properties={"log.dirs": ["a"]})


def test_misspelt_property_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError) as raised:
        ClusterProcesses(tmp_path / "data", properties={"num.partitons": 4, "ssl.protocol": "TLS"})
    assert str(raised.value) == (
        "num.partitons is no setting of a broker; did you mean num.partitions?"
    )
    assert not (tmp_path / "data").exists()


def test_failed_construction_leaves_no_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigError, match=r"x\.y is no setting of a broker"):
        LocalCluster(properties={"x.y": 1})
    assert list(tmp_path.iterdir()) == []
