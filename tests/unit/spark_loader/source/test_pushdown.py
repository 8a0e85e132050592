"""Predicates are pushed down without changing the result of a query."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import datasource as spark

from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from spark_loader.source.pushdown import push

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_577_880_000_000


def narrowed(*filters, start=0, until=100):
    pushed, left = push(filters)
    found = pushed.narrow(OffsetRange("t", 0, start, until, 0))
    return (found.start, found.until), left


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (spark.EqualTo(("offset",), 7), (7, 8)),
        (spark.GreaterThan(("offset",), 7), (8, 100)),
        (spark.GreaterThanOrEqual(("offset",), 7), (7, 100)),
        (spark.LessThan(("offset",), 7), (0, 7)),
        (spark.LessThanOrEqual(("offset",), 7), (0, 8)),
        (spark.EqualTo(("offset",), 700), (700, 700)),
    ],
)
def test_offset_predicates_narrow_range(given, expected):
    assert narrowed(given) == (expected, [])


def test_offset_predicates_intersect():
    both = (spark.GreaterThan(("offset",), 10), spark.LessThan(("offset",), 20))
    assert narrowed(*both) == ((11, 20), [])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (spark.EqualTo(("topic",), "t"), {"t-0", "t-1"}),
        (spark.StringStartsWith(("topic",), "t"), {"t-0", "t-1", "tt-0"}),
        (spark.In(("partition",), (1, 2)), {"t-1"}),
        (spark.LessThan(("partition",), 1), {"t-0", "tt-0"}),
    ],
)
def test_topic_and_partition_predicates_select_partitions(given, wanted):
    sources = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("tt", 0)]
    pushed, left = push([given])
    assert {str(each) for each in sources if pushed.wants(each)} == wanted
    assert left == []


def test_time_predicates_stay_with_spark():
    since = spark.GreaterThanOrEqual(("timestamp",), NOON)
    before = spark.LessThan(("timestamp",), NOON)
    pushed, left = push([since, before])
    assert pushed.since_ms == NOON_MS
    assert left == [since, before]
    assert push([before])[0].since_ms is None


@pytest.mark.parametrize(
    "given",
    [
        spark.EqualTo(("value",), b"x"),
        spark.EqualTo(("offset",), "7"),
        spark.EqualTo(("partition",), True),
        spark.In(("offset",), (1, 2)),
        spark.In(("partition",), (1, None)),
        spark.IsNotNull(("key",)),
        spark.EqualTo(("offset", "inner"), 7),
    ],
)
def test_unsupported_predicates_stay_with_spark(given):
    pushed, left = push([given])
    assert left == [given]
    assert pushed.predicates == ()


def test_not_null_of_required_column_is_dropped():
    assert push([spark.IsNotNull(("offset",))])[1] == []
