"""A 0.7 cluster of our own brokers: its registry, its brokers, and our group members."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.support.brokers import MortalBroker
from tests.support.client07 import Broker07, broker_address, entry
from tests.support.zookeeper import until
from zkbroker.cluster.process import BrokerProcess
from zkbroker.consumer import Consumer, ConsumerConnector, TopicFilter
from zkbroker.legacy07.consumer_config import ConsumerConfig07


@contextmanager
def registry_tree(chroot: str) -> Iterator[Any]:
    """Yield a kazoo client in a chroot beside `chroot`, `path` and `connect_string` filled in."""
    hosts, _, path = chroot.partition("/")
    maker = KazooClient(hosts, timeout=30)
    maker.start()
    maker.ensure_path(f"/{path}-07")
    maker.stop()
    maker.close()
    zk = KazooClient(f"{hosts}/{path}-07", timeout=30)
    zk.start()
    zk.connect_string = f"{hosts}/{path}-07"
    zk.path = f"/{path}-07"
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


def broker07(
    directory: Path, chroot: str, tree: Any, number: int = 0, **more: object
) -> BrokerProcess:
    """Return a broker with a 0.7 listener, not started; its 0.7 logs are in `directory/legacy`."""
    directory.mkdir(parents=True, exist_ok=True)
    return MortalBroker(
        directory,
        {
            "broker.id": str(number),
            "zookeeper.connect": chroot,
            "legacy07.listener": "127.0.0.1:0",
            "legacy07.log.dir": str(directory / "legacy"),
            "legacy07.zookeeper.chroot": tree.path,
            "log.flush.interval": "1",
            "num.partitions": "2",
            # As in a cluster of genuine brokers, there are only 0.7 logs.
            "legacy07.share.new.topics": "false",
            **{key.replace("_", "."): str(value) for key, value in more.items()},
        },
    )


@contextmanager
def cluster07(
    directory: Path, chroot: str, tree: Any, brokers: int = 2, **more: object
) -> Iterator[list[BrokerProcess]]:
    """Run brokers with 0.7 listeners on one registry."""
    with ExitStack() as stack:
        running = []
        for number in range(brokers):
            process = broker07(directory / f"b{number}", chroot, tree, number, **more)
            stack.callback(process.stop)
            process.start()
            running.append(process)
        until(lambda: len(tree.get_children("/brokers/ids")) == brokers)
        yield running


def make_topic(tree: Any, topic: str, brokers: int = 2) -> list[bytes]:
    """Have every broker create its partitions by a first message; return these messages."""
    first = []
    for number in range(brokers):
        broker = Broker07(*broker_address(tree, number))
        first.append(b"first-%d" % number)
        broker.produce(topic, 0, entry(first[-1]))
        until(lambda number=number: tree.exists(f"/brokers/topics/{topic}/{number}"))
        broker.close()
    return first


def ends(tree: Any, topic: str) -> dict[str, int]:
    """Return the end position of each partition of a topic, by its name."""
    found: dict[str, int] = {}
    if tree.exists(f"/brokers/topics/{topic}") is None:
        return found
    for number in tree.get_children(f"/brokers/topics/{topic}"):
        broker = Broker07(*broker_address(tree, number))
        for partition in range(int(tree.get(f"/brokers/topics/{topic}/{number}")[0])):
            found[f"{number}-{partition}"] = broker.offsets(topic, partition, -1)[0]
        broker.close()
    return found


def commits(tree: Any, group: str, topic: str) -> dict[str, int]:
    """Return the positions that a group has committed."""
    base = f"/consumers/{group}/offsets/{topic}"
    if tree.exists(base) is None:
        return {}
    return {name: int(tree.get(f"{base}/{name}")[0]) for name in tree.get_children(base)}


class OurMember07:
    """A member with our consumer, which reads its streams in threads.

    Args:
        connect: ZooKeeper with the chroot of the 0.7 registry.
        group: the group.
        streams: topic -> number of streams, or a filter.
        settings: properties of the consumer; dots as underscores.
    """

    def __init__(
        self, connect: str, group: str, streams: Mapping[str, int] | TopicFilter, **settings: object
    ) -> None:
        properties = {
            "groupid": group,
            "zk.connect": connect,
            "zk.sessiontimeout.ms": "30000",
            "fetcher.backoff.ms": "20",
            "rebalance.backoff.ms": "200",
            **{key.replace("_", "."): str(value) for key, value in settings.items()},
        }
        config = ConsumerConfig07.from_properties(properties)
        self.connector: ConsumerConnector = Consumer.create(config)
        self.messages: list[Any] = []
        if isinstance(streams, TopicFilter):
            made = self.connector.create_message_streams_by_filter(streams)
        else:
            by_topic = self.connector.create_message_streams(streams)
            made = [stream for each in by_topic.values() for stream in each]
        self._threads = [
            threading.Thread(target=self._read, args=(stream,), daemon=True) for stream in made
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: Any) -> None:
        for message in stream:
            self.messages.append(message)

    @property
    def id(self) -> str:
        return self.connector.consumer_id

    @property
    def owned(self) -> set[tuple[str, str]]:
        return {(topic, str(partition)) for topic, partition in self.connector.owned()}

    def close(self) -> None:
        self.connector.shutdown()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
