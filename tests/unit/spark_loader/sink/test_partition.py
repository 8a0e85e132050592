"""Files of a mapper by topic and hour of the event."""

import json

import pyarrow.parquet as pq
import pytest

from spark_loader import EventTime, QuarantineLimit
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.reader import RangeReader
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.partition import MapperSink, SinkOptions
from spark_loader.storage.files import sha256_of
from tests.support.loading import LOCAL


def offsets_in(local, kind, file, values):
    if kind == "parquet":
        return pq.ParquetFile(local).read(["offset"]).column("offset").to_pylist()
    if kind == "json":
        return [json.loads(line)["offset"] for line in local.read_text().splitlines()]
    offsets = [o for start, until in file.offsets for o in range(start, until)]
    assert local.read_bytes().splitlines() == [values[offset] for offset in offsets]
    return offsets


@pytest.mark.parametrize("kind", ["parquet", "json", "raw"])
def test_many_hours_make_one_file_per_hour(tmp_path, cluster, kind):
    """Rows are out of order, hours exceed the open files, and buffers are small."""
    hours, rows = 40, 4000
    values = [b'{"at": %d, "n": "%s"}' % (n * 7 % hours * 3600, b"x" * 50) for n in range(rows)]
    cluster.append("late", 0, values)
    sink = MapperSink(
        LOCAL, str(tmp_path), "staging", "token",
        SinkOptions(
            format=kind, event_time=EventTime.json("at"), open_files=4, buffer_bytes=20_000
        ),
    )  # fmt: skip
    sink.begin(TopicPartition("late", 0))
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=4096)
    for piece in reader.read(OffsetRange("late", 0, 0, rows)):
        sink.write(piece)
        assert len(sink._open) <= 4
    sink.finish()
    files = [*sink.tabled, *sink.files]
    assert len(files) == hours
    assert sum(each.rows for each in files) == rows
    held = []
    for each in files:
        local = tmp_path / getattr(each, "staged", each.path)
        assert sha256_of(local) == each.sha256
        offsets = offsets_in(local, kind, each, values)
        assert offsets == sorted(offsets)
        if kind == "parquet":
            stats = json.loads(each.stats)
            extent = (stats["minValues"]["offset"], stats["maxValues"]["offset"] + 1)
        else:
            extent = (each.start, each.until)
        assert (offsets[0], offsets[-1] + 1) == extent
        held.extend(offsets)
    assert sorted(held) == [*range(rows)]
    sink.discard()
    assert not [path for path in tmp_path.rglob("*token*") if path.is_file()]


@pytest.mark.parametrize(("kind", "files"), [("parquet", 2), ("json", 6), ("raw", 6)])
def test_small_partitions_share_parquet_file_of_hour(tmp_path, cluster, kind, files):
    sink = MapperSink(
        LOCAL, str(tmp_path), "staging", "token",
        SinkOptions(format=kind, event_time=EventTime.json("at")),
    )  # fmt: skip
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=1 << 20)
    values = [b'{"at": %d}' % (n % 2 * 3600) for n in range(10)]
    for partition in range(3):
        cluster.append("few", partition, [*values, b"poison"])
        sink.begin(TopicPartition("few", partition))
        for piece in reader.read(OffsetRange("few", partition, 0, 11)):
            sink.write(piece)
    sink.finish()
    assert len(sink.tabled) + len(sink.files) == files
    assert (sink.rows, [each.rows for each in sink.quarantined]) == (30, [1, 1, 1])
    for each in sink.tabled:
        rows = pq.ParquetFile(tmp_path / each.path).read(["partition", "offset"]).to_pylist()
        places = [(row["partition"], row["offset"]) for row in rows]
        assert places == sorted(places)
        assert len({partition for partition, _ in places}) == 3


def test_spooled_rows_stay_in_order(tmp_path, cluster):
    hours = [0] * 10 + [1] * 10 + [0] * 20 + [1] * 10
    cluster.append("late", 0, [b'{"at": %d}' % (hour * 3600) for hour in hours])
    options = SinkOptions(
        format="json", event_time=EventTime.json("at"), open_files=1, buffer_bytes=1,
        target_bytes=3000,
    )  # fmt: skip
    sink = MapperSink(LOCAL, str(tmp_path), "staging", "token", options)
    sink.begin(TopicPartition("late", 0))
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=1 << 20)
    for piece in reader.read(OffsetRange("late", 0, 0, len(hours))):
        for start in range(0, piece.num_rows, 10):
            sink.write(piece.slice(start, 10))
    sink.finish()
    of_hour_1 = [each for each in sink.files if "hour=1" in each.path]
    assert [(each.start, each.until, each.rows) for each in of_hour_1] == [(10, 50, 20)]
    assert sum(each.rows for each in sink.files) == 50


@pytest.mark.parametrize("most", [5, 6, None])
def test_quarantine_limit_counts_all_partitions_of_the_mapper(tmp_path, cluster, most):
    options = SinkOptions(event_time=EventTime.json("at"), max_quarantined=most)
    sink = MapperSink(LOCAL, str(tmp_path), "staging", "token", options)
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=1 << 20)

    def write_all():
        for partition in range(3):
            cluster.append("few", partition, [b"poison", b'{"at": 1}', b"poison"])
            sink.begin(TopicPartition("few", partition))
            for piece in reader.read(OffsetRange("few", partition, 0, 3)):
                sink.write(piece)

    if most == 5:
        with pytest.raises(QuarantineLimit, match=r"more than 5 records.*few-2 at offset 2"):
            write_all()
    else:
        write_all()
    sink.discard()
