"""A broker that was not started, and one that cannot start."""

import pytest

from zkbroker.broker import BrokerNode
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import RegistryError, ZkbrokerError


def test_failed_start_releases_the_directories(tmp_path):
    node = BrokerNode(
        BrokerConfig.from_properties(
            {
                "zookeeper.connect": "127.0.0.1:1",
                "zookeeper.connection.timeout.ms": "200",
                "log.dirs": str(tmp_path),
                "broker.id": "3",
            }
        )
    )
    assert node.broker_id == 3
    with pytest.raises(ZkbrokerError, match="not started"):
        _ = node.services
    for _ in range(2):  # the directories are free again
        with pytest.raises(RegistryError):
            node.start()
