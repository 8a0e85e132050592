"""The files of one partition, by hour of the event."""

import json

import pyarrow.parquet as pq
import pytest

from spark_loader import EventTime
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.reader import RangeReader
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.partition import PartitionSink, SinkOptions
from spark_loader.storage.files import sha256_of
from tests.support.loading import LOCAL


@pytest.mark.parametrize("kind", ["parquet", "json", "raw"])
def test_events_of_many_hours_make_one_file_an_hour(tmp_path, cluster, kind):
    """Out of order over more hours than files may be open, in buffers that hold little."""
    hours, rows = 40, 4000
    values = [b'{"at": %d, "n": "%s"}' % (n * 7 % hours * 3600, b"x" * 50) for n in range(rows)]
    cluster.append("late", 0, values)
    sink = PartitionSink(
        LOCAL, str(tmp_path), TopicPartition("late", 0), "staging", "token",
        SinkOptions(
            format=kind, event_time=EventTime.json("at"), open_files=4, buffer_bytes=20_000
        ),
    )  # fmt: skip
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=4096)
    for piece in reader.read(OffsetRange("late", 0, 0, rows)):
        sink.write(piece)
        assert len(sink._open) <= 4
    sink.finish()
    assert len(sink.files) == hours
    assert sum(each.rows for each in sink.files) == rows
    held = []
    for each in sink.files:
        local = tmp_path / each.staged
        assert sha256_of(local) == each.sha256
        if kind == "parquet":
            offsets = pq.ParquetFile(local).read(["offset"]).column("offset").to_pylist()
        elif kind == "json":
            offsets = [json.loads(line)["offset"] for line in local.read_text().splitlines()]
        else:
            offsets = [o for start, until in each.offsets for o in range(start, until)]
            lines = local.read_bytes().splitlines()
            assert lines == [values[offset] for offset in offsets]
        assert offsets == sorted(offsets)
        assert (offsets[0], offsets[-1] + 1) == (each.start, each.until)
        held.extend(offsets)
    assert sorted(held) == [*range(rows)]
    sink.discard()
    assert not any((tmp_path / "staging").iterdir())


def test_rows_put_aside_stay_in_order_when_a_file_becomes_free(tmp_path, cluster):
    hours = [0] * 10 + [1] * 10 + [0] * 20 + [1] * 10
    cluster.append("late", 0, [b'{"at": %d}' % (hour * 3600) for hour in hours])
    options = SinkOptions(
        format="json", event_time=EventTime.json("at"), open_files=1, buffer_bytes=1,
        target_bytes=3000,
    )  # fmt: skip
    sink = PartitionSink(
        LOCAL, str(tmp_path), TopicPartition("late", 0), "staging", "token", options
    )
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=1 << 20)
    for piece in reader.read(OffsetRange("late", 0, 0, len(hours))):
        for start in range(0, piece.num_rows, 10):
            sink.write(piece.slice(start, 10))
    sink.finish()
    of_hour_1 = [each for each in sink.files if "hour=01" in each.path]
    assert [(each.start, each.until, each.rows) for each in of_hour_1] == [(10, 50, 20)]
    assert sum(each.rows for each in sink.files) == 50
