import pytest

from zkbroker.cli.connection import discovery_properties, open_cluster, open_session
from zkbroker.errors import ConfigError


def test_brokers_count_before_a_zookeeper():
    assert discovery_properties("b:1", "z:1") == {"metadata.broker.list": "b:1"}
    assert discovery_properties(None, "z:1") == {"zookeeper.connect": "z:1"}


def test_who_names_no_cluster_is_told_what_to_give():
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"):
        discovery_properties(None, None)
    with pytest.raises(ConfigError, match="ZKBROKER_BOOTSTRAP"), open_cluster(None, None):
        pass
    with pytest.raises(ConfigError, match="ZKBROKER_ZOOKEEPER"), open_session(None):
        pass
