"""The cluster of a group consumer, by its settings."""

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.client import NoBrokersAvailable
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.connecting import connect
from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime

THREADS = get_runtime("threads")


def test_bootstrap_servers_locate_cluster() -> None:
    with FakeCluster(2) as fake:
        config = GroupConsumerConfig(bootstrap_servers=(fake.addresses.split(",")[1],))
        with connect(config, THREADS) as cluster:
            assert sorted(cluster.brokers()) == [0, 1]
    with pytest.raises(NoBrokersAvailable):
        connect(GroupConsumerConfig(bootstrap_servers=("127.0.0.1:1",)), THREADS)


def test_zookeeper_locates_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_session(*_: object, **__: object) -> None:
        raise RegistryError("no ZooKeeper at z:1")

    monkeypatch.setattr("zkbroker.client.zookeeper_source.ZkSession", no_session)
    with pytest.raises(RegistryError, match="z:1"):
        connect(GroupConsumerConfig(zookeeper_connect="z:1"), THREADS)
