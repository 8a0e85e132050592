"""All stored messages of a topic of a running cluster."""

from dataclasses import dataclass
from functools import partial

from zkbroker.client import BrokerUnavailable, Cluster, ZooKeeperSource
from zkbroker.client.leader_retries import retry_requests
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.consumer import FetchRequest, SimpleConsumer
from zkbroker.errors import LeaderNotAvailable
from zkbroker.records import iter_entries
from zkbroker.testing import LocalCluster

_WAIT_S = 120


@dataclass(frozen=True, slots=True)
class Stored:
    """Args: value of a message, and the id and epoch of the producer that sent it, -1 for none."""

    value: bytes | None
    producer: tuple[int, int]


def read_all(cluster: LocalCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Return partition → values by offset, as consumers see them; leaders may move meanwhile."""
    return {
        number: [each.value for each in found]
        for number, found in read_stored(cluster, topic).items()
    }


def read_stored(cluster: LocalCluster, topic: str) -> dict[int, list[Stored]]:
    """Return the same, with the producers of the messages.

    A new leader learns late how far its predecessor's high watermark was: its fetches end too soon
    until then. ListOffsets waits for that (KIP-207), and returns the log end.
    """
    with Cluster(ZooKeeperSource(cluster.zookeeper)) as view:
        latest = {(topic, each.partition): LATEST_TIME for each in view.partitions(topic)}
        ends = resolve_offsets(view, latest, timeout_s=_WAIT_S)
        return {
            number: retry_requests(
                view, [topic], partial(_read, view, topic, number, end or 0), timeout_s=_WAIT_S
            )
            for (_, number), end in ends.items()
        }


def _read(view: Cluster, topic: str, partition: int, end: int) -> list[Stored]:
    leader = view.leader(topic, partition)
    if leader is None:
        raise LeaderNotAvailable(f"{topic}-{partition} has no leader")
    address = view.brokers().get(leader)
    if address is None:
        raise BrokerUnavailable(f"broker {leader} is not registered")
    stored: list[Stored] = []
    with SimpleConsumer(address.host, address.port) as consumer:
        while True:
            found = consumer.fetch(FetchRequest(topic, partition, len(stored), 1 << 20))
            producers = {
                offset: (entry.producer_id, entry.producer_epoch)
                for entry in iter_entries(found.raw)
                for offset in range(entry.base_offset, entry.last_offset + 1)
            }
            for record in found:
                assert record.offset == len(stored)
                stored.append(Stored(record.value, producers[record.offset]))
            if len(stored) >= max(end, found.high_watermark):
                return stored
            if not producers:
                raise LeaderNotAvailable(f"{topic}-{partition} is not read to {end} yet")
