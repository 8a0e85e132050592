"""A cluster found through a list of brokers."""

import pytest

from tests.support.fake_broker import CLOSE, FakeCluster
from tests.support.producers import static_cluster
from zkbroker.client import Cluster, NoBrokersAvailable, StaticSource
from zkbroker.errors import ClientError, UnknownTopicOrPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import MetadataResponse
from zkbroker.protocol.messages.metadata import MetadataBroker, MetadataPartition, MetadataTopic


@pytest.mark.parametrize("version", [1, 7])
def test_lookup_raises_for_unknown_topic_and_creates_none(version):
    """Metadata requests before version 4 create the topics that they name."""
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, version)
        fake.create("t", [0])
        with static_cluster(fake) as cluster:
            with pytest.raises(UnknownTopicOrPartition, match="nothing"):
                cluster.partitions("nothing")
            assert "nothing" not in fake.leaders
            assert len(cluster.partitions("t")) == 1


@pytest.mark.parametrize("version", [0, 1, 4])
def test_topic_is_created_on_request_with_every_version(version):
    with FakeCluster(1) as fake:
        fake.auto_create = 2
        fake.versions[int(ApiKey.METADATA)] = (0, version)
        with static_cluster(fake) as cluster:
            assert len(cluster.partitions("new", create=True)) == 2


def test_unreachable_addresses_raise_no_brokers_available():
    with pytest.raises(NoBrokersAvailable, match="correct the addresses"):
        Cluster(StaticSource("127.0.0.1:1"), connect_timeout_ms=500).start()


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
        with static_cluster(fake) as cluster:
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


def test_stale_leader_of_cut_off_broker_is_ignored():
    def metadata_of(leader: int, epoch: int) -> MetadataResponse:
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
        fake.faults[ApiKey.METADATA, 0] = lambda request: metadata_of(0, 1)
        fake.faults[ApiKey.METADATA, 1] = lambda request: metadata_of(1, 2)
        with Cluster(StaticSource([fake.brokers[0].address])) as cluster:
            for _ in range(3):
                cluster.refresh(["t"])
            for _ in range(4):
                cluster.refresh(["t"])
                assert (cluster.leader("t", 0), cluster.leader_epoch("t", 0)) == (1, 2)


@pytest.mark.parametrize(
    ("addresses", "error"),
    [
        ("", "the list of brokers is empty"),
        *((address, "is not host:port") for address in ("host", "host:port", ":9092")),
        *((f"h:9092,h:{port}", f"{port} is no port") for port in (0, 65_536, 99_999)),
    ],
)
def test_invalid_address_is_refused(addresses, error):
    with pytest.raises(ClientError, match=error):
        StaticSource(addresses)
