"""A cluster found through a list of brokers."""

import pytest

from tests.support.fake_broker import CLOSE, FakeCluster
from zkbroker.client import (
    Cluster,
    NoBrokersAvailable,
    StaticSource,
)
from zkbroker.errors import (
    ClientError,
    UnknownTopicOrPartition,
)
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import MetadataResponse
from zkbroker.protocol.messages.metadata import MetadataBroker, MetadataPartition, MetadataTopic


def static(fake: FakeCluster, runtime: str = "threads", **options: int) -> Cluster:
    return Cluster(StaticSource(fake.addresses), runtime=runtime, **options)


def test_lookup_creates_no_topic_with_old_metadata_version():
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, 1)
        fake.create("t", [0])
        with static(fake) as cluster:
            with pytest.raises(UnknownTopicOrPartition):
                cluster.partitions("nothing")
            assert "nothing" not in fake.leaders
            assert len(cluster.partitions("t")) == 1


@pytest.mark.parametrize("version", [0, 1, 4])
def test_topic_is_created_on_request_with_every_version(version):
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, version)
        with static(fake) as cluster:
            assert len(cluster.partitions("new", create=True)) == 2


def test_unreachable_addresses_raise_no_brokers_available():
    with FakeCluster(1) as fake:
        address = fake.addresses
    with pytest.raises(NoBrokersAvailable, match="correct the addresses"):
        Cluster(StaticSource(address), connect_timeout_ms=500).start()


def test_cluster_is_usable_after_listed_broker_stopped():
    with FakeCluster(2) as fake:
        fake.create("t", [1])
        with Cluster(StaticSource(fake.brokers[0].address)) as cluster:
            assert cluster.leader("t", 0) is None
            fake.brokers.pop(0).stop()
            assert cluster.partitions("t")[0].leader == 1
            cluster.refresh()
            assert sorted(cluster.brokers()) == [1]


def test_view_is_kept_while_no_broker_answers():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with static(fake) as cluster:
            cluster.partitions("t")
            fake.faults[ApiKey.METADATA, 0] = lambda request: CLOSE
            with pytest.raises(Exception, match=r"closed|lost|connection|refused"):
                cluster.refresh(["t"])
            assert cluster.leader("t", 0) == 0
            fake.create("t", [0, 0])
            fake.faults.clear()
            cluster.refresh(["t"])
            assert len(cluster.partitions("t")) == 2


def test_addresses_with_broker_ids_are_accepted():
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        with Cluster(StaticSource([f"0:{fake.brokers[0].address}"])) as cluster:
            assert len(cluster.partitions("t")) == 1


def test_invalid_address_is_refused():
    for text in ("", "host", "host:port", ":9092"):
        with pytest.raises(ClientError):
            StaticSource(text)


def test_stale_leader_of_cut_off_broker_is_ignored():
    """Broker 0 tells of the leader before the last election, for ever."""

    def told(leader: int, epoch: int) -> MetadataResponse:
        partition = MetadataPartition(
            error_code=0, partition=0, leader=leader, leader_epoch=epoch, replicas=[0, 1], isr=[0]
        )
        return MetadataResponse(
            brokers=[
                MetadataBroker(node_id=each.id, host="127.0.0.1", port=each.port)
                for each in fake.brokers.values()
            ],
            topics=[MetadataTopic(error_code=0, topic="t", partitions=[partition])],
        )

    with FakeCluster(2) as fake:
        fake.faults[ApiKey.METADATA, 0] = lambda request: told(0, 1)
        fake.faults[ApiKey.METADATA, 1] = lambda request: told(1, 2)
        with Cluster(StaticSource([fake.brokers[0].address])) as cluster:
            for _ in range(3):
                cluster.refresh(["t"])
            for _ in range(4):
                cluster.refresh(["t"])
                assert (cluster.leader("t", 0), cluster.leader_epoch("t", 0)) == (1, 2)


@pytest.mark.parametrize("port", ["0", "65536", "99999"])
def test_invalid_port_is_refused(port):
    with pytest.raises(ClientError, match=f"{port} is no port"):
        StaticSource(f"127.0.0.1:9092,127.0.0.1:{port}")
