"""Names and partitions in the target."""

from types import SimpleNamespace

import pytest

from tests.unit.mirror.test_config import make
from zkbroker.mirror.routes import Route, Routes
from zkbroker.producer import DefaultPartitioner
from zkbroker.producer.plugins import resolve

HERE = "tests.unit.mirror.test_routes"


class ByLength:
    def partition(self, key, num_partitions):
        return len(key or b"") % num_partitions


class ByTopic:
    def partition(self, topic, key, key_bytes, value, value_bytes, cluster):
        return len(topic) + len(value_bytes)


class Target:
    cluster = None

    def __init__(self, config, count):
        self.partitioner = resolve("partitioner", config.producer().partitioner)
        self.own_partitioner = type(self.partitioner) is not DefaultPartitioner
        self._count = count
        self.asked = []

    def partitions(self, topic):
        self.asked.append(topic)
        return range(self._count)

    def count_like(self, topic, partition, source, source_topic):
        self.asked.append((topic, partition, source_topic))
        return self._count

    def follow(self, topic, source, source_topic):
        self.asked.append((topic, source_topic))


def routes(theirs: int, ours: int, **settings: str) -> tuple[Routes, Target]:
    config = make(**settings)
    west = config.sources[1]
    target = Target(config, ours)
    source = SimpleNamespace(
        config=west,
        partitions=lambda topic: list(range(theirs)),
        ordinal=lambda partition: partition,
        topic_admin=lambda: SimpleNamespace(close=lambda: None),
    )
    return Routes(config, source, target), target


def test_identity_partitions_create_topic_like_source():
    found, target = routes(4, 4, identity_partitions="true", topic_prefix="{source}.")
    route = found.find("orders", 3)
    assert route == Route("west.orders", range(4), identity=True)
    assert target.asked == [("west.orders", 3, "orders")]
    assert found.chooser(route, 3)(b"any key", b"v") == 3


@pytest.mark.parametrize(
    ("theirs", "ours", "partitioner", "identity"),
    [
        (3, 3, "", True),
        (3, 5, "", False),
        # a configured partitioner may choose other partitions for any count
        (3, 3, f"{HERE}:ByLength", False),
    ],
)
def test_partition_numbers_are_kept_with_equal_counts(theirs, ours, partitioner, identity):
    given = {"target_partitioner_class": partitioner} if partitioner else {}
    found, _ = routes(theirs, ours, **given)
    assert found.find("orders", 1) == Route("orders", range(ours), identity)


def test_other_partition_count_uses_key_or_source_number():
    found, _ = routes(8, 5)
    choose = found.chooser(found.find("orders", 7), 7)
    assert {choose(None, b"%d" % n) for n in range(20)} == {7 % 5}
    keys = [b"key-%d" % n for n in range(20)]
    rule = DefaultPartitioner()
    assert [choose(key, b"v") for key in keys] == [rule.partition(key, 5) for key in keys]


def test_configured_partitioner_chooses_for_all_messages():
    found, _ = routes(3, 5, target_partitioner_class=f"{HERE}:ByLength")
    choose = found.chooser(found.find("orders", 2), 2)
    assert (choose(None, b"v"), choose(b"four", b"v")) == (0, 4)
    found, _ = routes(3, 9, target_partitioner_class=f"{HERE}:ByTopic")
    assert found.chooser(found.find("orders", 2), 2)(None, b"vv") == len("orders") + 2


def test_looping_topics_and_own_topics_are_skipped():
    found, _ = routes(1, 1, topic_prefix="{source}.", target_name="here")
    assert found.skips("mirror-offset-syncs")
    assert found.skips("here.orders")
    assert not found.skips("orders")


def test_only_mirrored_topics_are_followed():
    found, target = routes(1, 1, topic_prefix="w.")
    found.find("b", 0)
    found.find("a", 0)
    target.asked.clear()
    found.follow()
    assert target.asked == [("w.a", "a"), ("w.b", "b")]
