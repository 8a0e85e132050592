"""Values become columns of a load; bad values are quarantined and can be replayed."""

import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from spark_loader import EventTime, QuarantineLimit
from spark_loader.columns.spec import ValueColumns
from tests.support.loading import verified

COLUMNS = ValueColumns.json("user.id:long,at:timestamp,status:int")


def append(cluster, *values):
    cluster.append("v", 0, values)


def visit(number, **more):
    at = f"2015-05-17T{number % 24:02}:05:03Z"
    return json.dumps({"user": {"id": number}, "at": at, "status": 200, **more}).encode()


@pytest.fixture
def load(run):
    def load(**fields):
        given = {"topics": ["v"], "columns": COLUMNS, "event_time": EventTime.column("at")}
        return run(**{**given, **fields})

    return load


def loaded(output):
    found = ds.dataset(output, format="parquet", partitioning="hive")
    return found.to_table().sort_by("offset")


def test_column_supplies_event_time(cluster, load, output):
    append(cluster, *map(visit, range(30)))
    assert load().rows == 30
    table = loaded(output)
    assert table.schema.field("user_id").type == pa.int64()
    assert table.schema.field("status").type == pa.int32()
    assert table.column("user_id").to_pylist() == [*range(30)]
    assert [each.hour for each in table.column("at").to_pylist()] == [n % 24 for n in range(30)]
    assert table.column("hour").to_pylist() == [n % 24 for n in range(30)]
    verified(output)


def test_bad_values_are_quarantined_and_replayed(cluster, load, output, command):
    bad = [b'{"status": "ok"}', b"none", visit(3, at=None), visit(4, status=2**40), visit(5)]
    append(cluster, visit(1), *bad, visit(6))
    result = load()
    assert (result.rows, result.quarantined) == (3, 4)
    report = verified(output)
    assert (report.rows, report.quarantined) == (3, 4)
    [file] = (output / "_zkbroker" / "quarantine").rglob("*.jsonl")
    reasons = {row["offset"]: row["reason"] for row in map(json.loads, file.open())}
    assert reasons.keys() == {1, 2, 3, 4}
    assert "status" in reasons[1]
    assert reasons[2] == "not a JSON object"
    assert reasons[3] == "column at is null"
    command("replay-quarantine", output, "--columns-json", "user.id:long")
    report = verified(output)
    assert (report.rows, report.quarantined) == (6, 1)


def test_rewind_withdraws_every_quarantined_record_that_loads_again(cluster, load, output, command):
    append(cluster, visit(0, at=None), visit(1, status="bad"), visit(2))
    assert load().quarantined == 2
    printed = command("rewind", output, "-t", "v", "--partition", 0, "--to", 1)
    # A quarantine file counts as a whole.
    assert printed == "v-0: the next load begins at offset 0\n"
    assert (load().quarantined, verified(output).quarantined) == (2, 2)


def test_too_many_bad_values_fail_load(cluster, load):
    append(cluster, *[b"%d" % number for number in range(50)])
    with pytest.raises(QuarantineLimit, match=r"more than 10 .*not a JSON object.*columns"):
        load(max_quarantined=10)


def test_column_with_microseconds_is_quarantined_and_written_as_json(
    cluster, load, output, tmp_path
):
    append(cluster, b'{"at": "2015-05-17T10:05:03.123456Z", "when": 1431857103}')
    for name, fields in (
        ("quarantined", {"event_time": EventTime.json("never")}),
        ("json", {"event_time": EventTime.json("when"), "format": "json"}),
    ):
        result = load(output=str(tmp_path / name), **fields)
        assert (result.rows, result.quarantined) == ((0, 1) if name == "quarantined" else (1, 0))
        verified(tmp_path / name)
    [file] = (tmp_path / "json" / "topic=v").rglob("*.jsonl")
    assert json.loads(file.read_text())["at"] == 1_431_857_103_123


def test_typed_columns_are_written_as_json(cluster, load, output):
    append(cluster, visit(1))
    columns = ValueColumns.json(
        "at:timestamp,day=at:date[%Y-%m-%dT%H:%M:%SZ],m=status:decimal(5,1)"
    )
    load(columns=columns, format="json")
    [file] = (output / "topic=v").rglob("*.jsonl")
    row = json.loads(file.read_text())
    assert (row["at"], row["day"], row["m"]) == (1431824703000, "2015-05-17", "200.0")
