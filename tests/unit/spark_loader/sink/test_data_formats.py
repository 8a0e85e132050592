"""Formats of data files."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_loader.sink.data_formats import DATA_FORMATS, format_of, in_table
from spark_loader.storage.files import HashingFile

WHEN = datetime(2020, 1, 1, tzinfo=UTC)
# Values with bytes that formats of lines may not take for an end of one.
TABLE = pa.table(
    {
        "partition": pa.array([3, 3, 3], pa.int32()),
        "offset": [5, 6, 9],
        "value": [b"one", None, "\u2028\r".encode()],
        "event_time": pa.array([WHEN] * 3, pa.timestamp("us", tz="UTC")),
    }
)


@pytest.mark.parametrize("kind", DATA_FORMATS)
def test_formats_count_and_read_back_rows(kind, tmp_path):
    data_format = DATA_FORMATS[kind]
    path = tmp_path / f"rows.{data_format.suffix}"
    assert format_of(str(path)) is data_format
    assert in_table(str(path)) is data_format.in_table
    with path.open("wb") as out:
        writer = data_format.writer(HashingFile(out), TABLE.schema, "snappy")
        for number in range(TABLE.num_rows):
            writer.write(TABLE.slice(number, 1))
        writer.close()
    assert data_format.count_rows(path) == 3
    if data_format.offset_columns is not None:
        found = data_format.offset_columns(path)
        assert found.to_pydict() == TABLE.select(["partition", "offset"]).to_pydict()


def test_unknown_suffix_is_refused():
    assert not in_table("part-1.orc")
    assert len({each.suffix for each in DATA_FORMATS.values()}) == len(DATA_FORMATS)
    with pytest.raises(ValueError, match=r"does not end in one of \.parquet, \.jsonl"):
        format_of("topic=t/part-1.orc")
