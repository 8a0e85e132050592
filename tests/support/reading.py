"""Everything that is stored in a topic of a running cluster."""

from functools import partial

from zkbroker.client import BrokerUnavailable, Cluster, ZooKeeperSource
from zkbroker.client.asking_again import ask_again
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.errors import LeaderNotAvailable
from zkbroker.testing import LocalCluster

_WAIT_S = 60


def read_all(cluster: LocalCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Return partition → values by offset, as consumers see them; leaders may move meanwhile."""
    with Cluster(ZooKeeperSource(cluster.zookeeper)) as view:
        return {
            number: ask_again(view, [topic], partial(_read, view, topic, number), timeout_s=_WAIT_S)
            for number in [each.partition for each in view.partitions(topic)]
        }


def _read(view: Cluster, topic: str, partition: int) -> list[bytes | None]:
    leader = view.leader(topic, partition)
    if leader is None:
        raise LeaderNotAvailable(f"{topic}-{partition} has no leader")
    address = view.brokers().get(leader)
    if address is None:
        raise BrokerUnavailable(f"broker {leader} is not registered")
    values: list[bytes | None] = []
    with SimpleConsumer(address.host, address.port) as consumer:
        while True:
            found = consumer.fetch(FetchRequest(topic, partition, len(values), 1 << 20))
            for record in found:
                assert record.offset == len(values)
                values.append(record.value)
            if len(values) >= found.high_watermark:
                return values
