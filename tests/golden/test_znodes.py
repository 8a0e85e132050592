"""The tree of a running cluster, compared with those of genuine brokers and consumers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters import MakeCluster
from tests.support.zookeeper import until
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import Consumer, Whitelist
from zkbroker.registry import topics
from zkbroker.registry.producer_ids import claim_block
from zkbroker.zookeeper import ZkSession

DATA = Path(__file__).parent / "data" / "znodes"

Shape = tuple[str, object]
"""E or P, and the kind of the data."""


def shape_of(data: str) -> object:
    """Return the kind of a value; for JSON its keys and the kinds of their values."""
    try:
        value = json.loads(data)
    except ValueError:
        return "thread id" if re.fullmatch(r".+_.+-\d{13}-[0-9a-f]{8}-\d+", data) else ""
    if isinstance(value, dict):
        return frozenset((key, type(kept).__name__) for key, kept in value.items())
    return type(value).__name__


def general(path: str) -> str:
    """Return a path whose variable parts are replaced by their kinds."""
    path = re.sub(r"^(/brokers/topics|/config/topics)/[^/]+", r"\1/[topic]", path)
    path = re.sub(r"^(/consumers)/[^/]+", r"\1/[group]", path)
    path = re.sub(r"(/ids)/[^/]+$", r"\1/[id]", path)
    path = re.sub(r"(/owners|/offsets)/[^/]+", r"\1/[topic]", path)
    path = re.sub(r"(\[topic\](?:/partitions)?)/\d+", r"\1/[n]", path)
    return re.sub(r"\d{10}$", "[seq]", path)


def golden(version: str) -> dict[str, set[Shape]]:
    tree: dict[str, set[Shape]] = {}
    for line in (DATA / f"kafka-{version}.txt").read_text().splitlines():
        kind, rest = line.split(" ", 1)
        path, _, data = rest.partition("  ->  ")
        tree.setdefault(general(path), set()).add((kind, shape_of(data)))
    return tree


def walk(session: ZkSession, path: str = "/") -> Iterator[tuple[str, str, str]]:
    data, stat = session.get(path)
    yield path, "E" if stat.ephemeral_owner else "P", data.decode()
    for name in session.children(path):
        if (path, name) != ("/", "zookeeper"):
            yield from walk(session, f"{path.rstrip('/')}/{name}")


def ours(session: ZkSession) -> dict[str, set[Shape]]:
    tree: dict[str, set[Shape]] = {}
    for path, kind, data in walk(session):
        tree.setdefault(general(path), set()).add((kind, shape_of(data)))
    return tree


@pytest.fixture(scope="module")
def tree(local_cluster: MakeCluster) -> Iterator[dict[str, set[Shape]]]:
    """A cluster in the state of the genuine ones: topics, settings, two consumers."""
    with local_cluster() as cluster, ZkSession(cluster.zookeeper) as session:
        cluster.create_topic("g08-multi", partitions=6)
        cluster.create_topic("g08-gzip")
        topics.set_topic_config(session, "g08-gzip", {"message.timestamp.type": "LogAppendTime"})
        claim_block(session, 1)
        properties = {
            "zookeeper.connect": cluster.zookeeper,
            "group.id": "golden-group",
            "auto.offset.reset": "smallest",
        }
        config = ConsumerConfig.from_properties(properties)
        with Consumer.create(config) as first, Consumer.create(config) as second:
            first.create_message_streams_by_filter(Whitelist("g08-m.*"), 1)
            second.create_message_streams({"g08-multi": 1})
            until(lambda: len(first.owned()) == len(second.owned()) == 3)
            for consumer in (first, second):
                consumer.commit_offsets(dict.fromkeys(consumer.owned(), 0))
            yield ours(session)


@pytest.mark.parametrize("version", ["0.8.2.2", "2.3.0"])
def test_tree_has_every_genuine_node_with_kind_and_keys(
    tree: dict[str, set[Shape]], version: str
) -> None:
    # Intended differences, and those between Kafka versions.
    differs = {
        # Ephemeral, as the design says; genuine brokers keep it persistent.
        "/brokers/topics/[topic]/partitions/[n]/state": "E",
        # Stores the form of the state nodes; genuine brokers never read it.
        "/brokers/topics": "P",
        # Stores the decision; genuine brokers leave it empty.
        "/brokers/topics/[topic]/partitions/[n]": "P",
    }
    for path, shapes in golden(version).items():
        assert path in tree, path
        if path in differs:
            assert {kind for kind, _ in tree[path]} == {differs[path]}
        elif path == "/brokers/ids/[id]" and version == "0.8.2.2":
            # Version 4 has all keys of version 1.
            ((kind, keys),) = shapes
            ((own_kind, own_keys),) = tree[path]
            assert own_kind == kind
            assert set(keys) <= set(own_keys)  # type: ignore[call-overload] # both are sets
        else:
            assert shapes <= tree[path], path


def test_partition_state_has_genuine_keys(tree: dict[str, set[Shape]]) -> None:
    path = "/brokers/topics/[topic]/partitions/[n]/state"
    assert {keys for _, keys in tree[path]} == {keys for _, keys in golden("0.8.2.2")[path]}
