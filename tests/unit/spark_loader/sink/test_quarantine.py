"""Quarantined records are kept verbatim with offset and reason, up to a limit."""

import base64
import json

import pyarrow as pa
import pytest

from spark_loader.errors import QuarantineLimit
from spark_loader.reading.damage import DamagedEntry
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.quarantine import Quarantine
from tests.support.loading import LOCAL

BATCH = pa.RecordBatch.from_pydict(
    {
        "offset": pa.array([7, 8, 9], pa.int64()),
        "timestamp": pa.array([0, 1000, 2000], pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0, 0, 0], pa.int32()),
        "key": pa.array([None, b"k", b""], pa.binary()),
        "value": pa.array([b"a", b"\xff", None], pa.binary()),
    }
)


def quarantine(tmp_path, limit=None):
    return Quarantine(LOCAL, str(tmp_path), TopicPartition("t", 3), "staging", "token", limit)


def test_quarantined_rows_keep_order_and_reasons(tmp_path):
    one = quarantine(tmp_path)
    one.add(BATCH, {2: "no time", 1: "no JSON"})
    one.add_damaged(DamagedEntry(12, 15, b"raw", "checksum"))
    one.finish()
    one.finish()
    (file,) = one.files
    assert (file.start, file.until, file.rows, file.offsets) == (8, 15, 3, ((8, 10), (12, 15)))
    lines = [json.loads(line) for line in (tmp_path / file.staged).read_bytes().splitlines()]
    assert [(line["offset"], line["reason"]) for line in lines] == [
        (8, "no JSON"),
        (9, "no time"),
        (12, "checksum"),
    ]
    assert base64.b64decode(lines[0]["value"]) == b"\xff"
    assert (lines[0]["timestamp"], lines[1]["value"]) == (1, None)
    assert (lines[2]["until"], base64.b64decode(lines[2]["entry"])) == (15, b"raw")


def test_quarantine_file_is_in_order_of_offsets_whatever_comes_first(tmp_path):
    one = quarantine(tmp_path)
    one.add_damaged(DamagedEntry(12, 15, b"raw", "checksum"))
    one.add(BATCH, {2: "no JSON"})
    one.add(BATCH, {0: "no time"})
    one.finish()
    (file,) = one.files
    assert (file.start, file.until, file.offsets) == (7, 15, ((7, 8), (9, 10), (12, 15)))
    lines = (tmp_path / file.staged).read_bytes().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [7, 9, 12]


def test_quarantine_limit_names_last_reason(tmp_path):
    with pytest.raises(QuarantineLimit, match=r"more than 1 records.*t-3 at offset 8: no JSON"):
        quarantine(tmp_path, 1).add(BATCH, {0: "no time", 1: "no JSON"})


def test_empty_quarantine_writes_no_file(tmp_path):
    one = quarantine(tmp_path)
    one.finish()
    assert one.files == []
    assert list(tmp_path.iterdir()) == []
