"""Planning of batches and micro-batches, without Spark itself."""

import pickle
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    Not,
    StringContains,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import ArrayType, StructType

from spark_loader.errors import DataLoss
from spark_loader.reading.columns import arrow_schema
from spark_loader.reading.options import SourceOptions
from spark_loader.reading.resolve import NoOffsetForTime
from spark_loader.source.datasource import HEADERS_SCHEMA, SCHEMA, ZkbrokerReader, ZkbrokerSource
from spark_loader.source.stream import ZkbrokerStreamReader
from tests.support.directory_cluster import DirectoryCluster
from tests.support.loading import AT
from tests.support.transactional import TransactionalLog
from zkbroker.errors import ConfigError, UnknownTopicOrPartition


@pytest.fixture
def cluster(tmp_path):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    cluster.append("a", 0, [b"v"] * 100)
    cluster.append("a", 0, [b"w"] * 100, timestamp_ms=AT + 60_000)
    cluster.append("a", 1, [b"v"] * 50)
    cluster.append("b", 0, [b"v"] * 10)
    return cluster


def options(streaming, **more):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **more}
    if "assign" in more or "subscribePattern" in more:
        del given["subscribe"]
    return SourceOptions.parse(given, streaming=streaming)


def batch(cluster, **more):
    return ZkbrokerReader(options(False, **more), cluster)


def ranges(reader, *planned):
    partitions = reader.partitions(*planned)
    return [
        (p.wanted.topic, p.wanted.partition, p.wanted.start, p.wanted.until) for p in partitions
    ]


def test_schema_matches_spark_kafka_source():
    from pyspark.sql.pandas.types import to_arrow_schema  # loads pandas

    header = StructType().add("key", "string").add("value", "binary")
    kafka = StructType().add("key", "binary").add("value", "binary").add("topic", "string")
    kafka = kafka.add("partition", "integer").add("offset", "long").add("timestamp", "timestamp")
    kafka = kafka.add("timestampType", "integer")
    assert to_arrow_schema(kafka, timezone="UTC").equals(arrow_schema(headers=False))
    assert ZkbrokerSource({}).schema() == SCHEMA
    kafka = kafka.add("headers", ArrayType(header))
    assert to_arrow_schema(kafka, timezone="UTC").equals(arrow_schema(headers=True))
    assert ZkbrokerSource({"includeHeaders": "true"}).schema() == HEADERS_SCHEMA


def test_batch_reads_earliest_to_latest(cluster):
    assert ranges(batch(cluster)) == [("a", 0, 0, 200), ("a", 1, 0, 50)]


def test_pattern_and_assignment_select_partitions(cluster):
    assert {r[0] for r in ranges(batch(cluster, subscribePattern="a|b"))} == {"a", "b"}
    assert ranges(batch(cluster, assign='{"a":[1]}')) == [("a", 1, 0, 50)]
    with pytest.raises(UnknownTopicOrPartition, match="a-7"):
        ranges(batch(cluster, assign='{"a":[7]}'))
    with pytest.raises(UnknownTopicOrPartition):
        ranges(batch(cluster, subscribe="nowhere"))


def test_offsets_and_times_bound_batch(cluster):
    bounds = {"startingOffsets": '{"a":{"0":5,"1":-2}}', "endingOffsets": '{"a":{"0":-1,"1":7}}'}
    assert ranges(batch(cluster, **bounds)) == [("a", 0, 5, 200), ("a", 1, 0, 7)]
    with pytest.raises(ConfigError, match="a-1"):
        ranges(batch(cluster, startingOffsets='{"a":{"0":5}}'))
    later = {"startingTimestamp": str(AT + 1)}
    with pytest.raises(NoOffsetForTime, match="a-1"):
        ranges(batch(cluster, **later))
    later["startingOffsetsByTimestampStrategy"] = "latest"
    assert ranges(batch(cluster, **later)) == [("a", 0, 100, 200)]
    assert ranges(batch(cluster, endingTimestamp=str(AT + 1))) == [
        ("a", 0, 0, 100),
        ("a", 1, 0, 50),
    ]


def test_ranges_are_cut_by_count_and_size(cluster):
    assert len(ranges(batch(cluster, minPartitions="5"))) == 5
    cut = ranges(batch(cluster, maxRecordsPerPartition="60"))
    assert [r[3] - r[2] for r in cut] == [50, 50, 50, 50, 50]


def test_predicates_narrow_ranges(cluster):
    reader = batch(cluster, subscribePattern="a|b")
    contains = StringContains(("topic",), "x")
    negated = Not(EqualTo(("partition",), 0))
    left = list(
        reader.pushFilters(
            [
                IsNotNull(("topic",)),
                EqualTo(("topic",), "a"),
                In(("partition",), (0, 5)),
                GreaterThan(("offset",), 9),
                LessThan(("offset",), 20),
                contains,
                negated,
            ]
        )
    )
    assert left == [contains, negated]
    assert ranges(pickle.loads(pickle.dumps(reader))) == [("a", 0, 10, 20)]


def test_time_predicate_moves_start_and_stays_with_spark(cluster):
    reader = batch(cluster)
    since = datetime.fromtimestamp((AT + 1) / 1000, UTC)
    newer = GreaterThanOrEqual(("timestamp",), since)
    assert list(reader.pushFilters([newer])) == [newer]
    assert ranges(reader) == [("a", 0, 100, 200)]


def test_task_reads_its_range(cluster):
    reader = batch(cluster, assign='{"a":[0]}', maxRecordsPerPartition="150")
    first, second = reader.partitions()
    read = [
        [offset for each in reader.read(task) for offset in each.column("offset").to_pylist()]
        for task in (first, second)
    ]
    assert read == [[*range(100)], [*range(100, 200)]]
    assert list(reader.read(object())) == []


def stream(cluster, **more):
    more.setdefault("startingOffsets", "earliest")
    return ZkbrokerStreamReader(options(True, **more), cluster)


def test_stream_begins_at_starting_offsets(cluster):
    assert stream(cluster, startingOffsets="latest").initialOffset() == {"a": {"0": 200, "1": 50}}
    assert stream(cluster).initialOffset() == {"a": {"0": 0, "1": 0}}


def test_limit_per_trigger_is_shared_by_lag(cluster):
    reader = stream(cluster, maxOffsetsPerTrigger="50")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(50)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert end == {"a": {"0": 40, "1": 10}}
    assert ranges(reader, start, end) == [("a", 0, 0, 40), ("a", 1, 0, 10)]
    assert reader.latestOffset(start, ReadAllAvailable()) == {"a": {"0": 200, "1": 50}}
    assert reader.reportLatestOffset() == {"a": {"0": 200, "1": 50}}
    assert ranges(reader, end, end) == []


def test_min_offsets_wait_until_max_delay(cluster):
    reader = stream(cluster, minOffsetsPerTrigger="1000")
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMinRows(1000)
    assert reader.latestOffset(start, ReadMinRows(1000)) == start
    waiting = stream(cluster, minOffsetsPerTrigger="1000", maxTriggerDelay="0ms")
    assert waiting.latestOffset(start, ReadMinRows(1000)) != start


def test_available_now_stops_at_initial_log_ends(cluster):
    reader = stream(cluster, maxOffsetsPerTrigger="200")
    offset = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    cluster.append("a", 1, [b"late"] * 10)
    cluster.append("a", 2, [b"new"] * 10)
    seen = []
    while (end := reader.latestOffset(offset, ReadMaxRows(200))) != offset:
        seen.append(end)
        offset = end
    assert offset == {"a": {"0": 200, "1": 50}}
    assert len(seen) == 2


def test_added_partition_is_read_from_beginning(cluster):
    reader = stream(cluster)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.append("a", 2, [b"new"] * 10)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert ranges(reader, start, end) == [("a", 2, 0, 10)]
    cluster.delete_before("a", 2, 4)
    with pytest.raises(DataLoss, match="begins at offset 4"):
        reader.latestOffset(start, ReadAllAvailable())


def test_lost_data_fails_stream_unless_allowed(cluster):
    for gone in ({"a": {"0": 200, "1": 50, "9": 3}}, {"a": {"0": 900, "1": 50}}):
        with pytest.raises(DataLoss, match="failOnDataLoss"):
            stream(cluster).latestOffset(gone, ReadAllAvailable())
        lenient = stream(cluster, failOnDataLoss="false")
        assert "0" in lenient.latestOffset(gone, ReadAllAvailable())["a"]


def test_stream_commits_offsets_of_named_group(cluster):
    reader = stream(cluster, **{"kafka.group.id": "g"})
    reader.commit({"a": {"0": 7}})
    assert cluster.view(None).group_offsets("g", []) == {("a", 0): 7}
    pickle.loads(pickle.dumps(reader)).stop()
    reader.stop()


def test_read_committed_ends_at_open_transaction(cluster, tmp_path):
    log = TransactionalLog(tmp_path / "made")
    log.send(None, 5)
    log.send(1, 5)
    cluster.store("x", 0, log)
    given = {"subscribe": "x", "kafka.isolation.level": "read_committed"}
    reader = stream(cluster, **given)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"x": {"0": 5}}
    # The query read uncommitted records before: it waits, and nothing is lost.
    further = {"x": {"0": 8}}
    assert reader.latestOffset(further, ReadAllAvailable()) == further
    with pytest.raises(DataLoss, match="ends at 10"):
        reader.latestOffset({"x": {"0": 12}}, ReadAllAvailable())
    assert ranges(batch(cluster, **given)) == [("x", 0, 0, 5)]
    log.abort(1)
    cluster.store("x", 0, log)
    assert reader.latestOffset(further, ReadAllAvailable()) == {"x": {"0": 11}}
