"""Records of checkpoints round-trip; files beside the table are counted over several runs."""

from dataclasses import replace

from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.ledger import (
    DataFile,
    Gap,
    MapperOffsets,
    Plan,
    TableFile,
    beside,
    total_bytes,
)
from spark_loader.reading.splits import OffsetRange
from tests.support.loading import entry

FILE = DataFile(
    path="a",
    staged="s/a",
    topic="t",
    partition=0,
    start=1,
    until=5,
    rows=3,
    size_bytes=10,
    sha256="00",
)


def test_withdrawn_file_counts_again_when_a_later_entry_adds_it():
    again = replace(FILE, rows=9)
    data, quarantined = beside(
        [
            entry(1, files=(FILE,), quarantined=(replace(FILE, path="q"),)),
            entry(1, withdrawn=("a", "q")),
            entry(1, files=(again,)),
        ]
    )
    assert (data, quarantined) == ([again], [])


def test_plan_ranges_are_sorted():
    one, two = OffsetRange("t", 0, 0, 5, 0), OffsetRange("t", 0, 5, 9, 0)
    assert Plan(run=1, created="", mappers=((two,), (one,))).ranges == [one, two]


def test_absent_offsets_are_written_as_pairs_and_older_form_is_read():
    absent = (Gap("t", 0, 5, 6, "x"), Gap("t", 0, 8, 9, "x"), Gap("t", 0, 9, 12, "y"))
    done = MapperOffsets(run=1, mapper=0, attempt="a", ranges=(), absent=absent)
    content = to_json(replace(done, absent=(absent[1], absent[2], absent[0])))
    assert content["absent"][0] == {
        "topic": "t",
        "partition": 0,
        "cause": "x",
        "offsets": [(5, 6), (8, 9)],
    }
    assert from_json(MapperOffsets, content) == done
    assert from_json(MapperOffsets, {**content, "absent": to_json(absent)}) == done


def test_total_bytes_sums_table_and_other_files():
    of_table = TableFile(path="p", rows=1, size_bytes=5, sha256="0", stats="{}")
    assert total_bytes([of_table], [FILE, FILE]) == 25
