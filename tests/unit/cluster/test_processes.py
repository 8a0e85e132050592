import pytest

from zkbroker.cluster import BrokerProcess, ClusterProcesses
from zkbroker.errors import ConfigError, ZkbrokerError


def test_a_cluster_needs_a_broker(tmp_path):
    with pytest.raises(ConfigError, match="whole number from 1"):
        ClusterProcesses(tmp_path, brokers=0)


def test_ports_are_given_for_all_brokers_or_none(tmp_path):
    with pytest.raises(ConfigError, match="each of the 2 brokers, not 1"):
        ClusterProcesses(tmp_path, brokers=2, ports=[9092])


def test_a_broker_that_was_never_started_has_no_address(tmp_path):
    broker = BrokerProcess(tmp_path, {"broker.id": "1"})
    assert not broker.alive
    with pytest.raises(ZkbrokerError, match="not been started"):
        _ = broker.address
    assert broker.stop()
