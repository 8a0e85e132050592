"""The table of a lake: commits, conflicts, large ledgers and earlier versions."""

import json
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import spark_loader
from spark_loader import EventTime, LoadError
from spark_loader.errors import AlteredCheckpoint, CheckpointError
from spark_loader.lake.formats import ICEBERG, TABLE_FORMATS
from spark_loader.lake.ledger import Entry, Gap
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_files import (
    base_schema,
    partition_values,
    schema_from_texts,
    schema_to_text,
)
from spark_loader.reading.positions import TopicPartition
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, entry, table_file, verified
from zkbroker.types import Partition07

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=TABLE_FORMATS)
def table(request, tmp_path):
    if request.param == ICEBERG:
        pytest.importorskip("pyiceberg")
    return LakeTable(LOCAL, str(tmp_path / "lake"), request.param)


def test_commit_updates_files_offsets_and_ledger(table):
    assert (table.latest(), table.entries(), table.files()) == (None, [], [])
    gaps = (Gap("t", 0, 3, 4, "lost"),)
    first = entry(1, positions={T0: 5, T1: 0}, gaps=gaps)
    table.commit(first, [table_file(1)])
    table.commit(entry(2, positions={T0: 9, T1: 0}), [table_file(2)])
    assert table.entries()[0] == replace(first, settled=1)
    assert [each.path for each in table.files()] == [table_file(1).path, table_file(2).path]
    assert table.positions([T0, T1]) == {T0: 9, T1: 0}


def test_commit_is_one_log_file(tmp_path):
    delta = LakeTable(LOCAL, str(tmp_path / "lake"))
    delta.commit(entry(1, positions={T0: 5, T1: 0}), [table_file(1)])
    delta.commit(entry(2, positions={T0: 9, T1: 0}), [table_file(2)])
    log = f"{delta.output}/_delta_log"
    last = LOCAL.read(f"{log}/{LOCAL.names(log)[-1]}")
    actions = [json.loads(line) for line in last.splitlines()]
    assert sorted(next(iter(each)) for each in actions) == ["add", "commitInfo", "txn", "txn"]


def test_earlier_version_can_be_read(table):
    table.commit(entry(1), [table_file(1)])
    table.commit(Entry(run=0, kind="seal", created="now"))
    table.commit(entry(2), [table_file(2)])
    assert [each.path for each in table.files(table.version_of(1))] == [table_file(1).path]
    with pytest.raises(LoadError, match=r"run 3 is not in the table; there are \[1, 2\]"):
        table.version_of(3)


def act_before_commit(table, action):
    """Call `action` once, after a commit has read the table and before it commits."""
    inner = table.format.commit
    left = [action]

    def commit(base, change):
        if left:
            left.pop()()
        inner(base, change)

    table.format.commit = commit


def test_second_commit_from_same_position_is_refused(table):
    table.commit(entry(1, positions={T0: 5}), [table_file(1)])
    other = LakeTable(LOCAL, table.output)
    act_before_commit(other, lambda: table.commit(entry(2, positions={T0: 9}), [table_file(2)]))
    with pytest.raises(CheckpointError, match=r"t-0 was moved from offset 5 to 9 by run 2 mean"):
        other.commit(entry(3, positions={T0: 8}), [table_file(3)], since={T0: 5})
    assert table.positions([T0]) == {T0: 9}
    assert [each.path for each in table.files()] == [table_file(1).path, table_file(2).path]


def test_concurrent_commits_of_different_partitions_both_count(table):
    table.commit(entry(1, positions={T0: 5}))
    other = LakeTable(LOCAL, table.output)
    act_before_commit(
        other, lambda: table.commit(entry(2, positions={T0: 9}), [table_file(2)], since={T0: 5})
    )
    other.commit(entry(3, positions={T1: 7}), [table_file(3)], since={T1: 0})
    assert table.positions([T0, T1]) == {T0: 9, T1: 7}
    assert table.latest().positions == {T0: 9, T1: 7}
    assert [each.run for each in table.entries()] == [1, 2, 3]
    assert len(table.files()) == 2


def test_commit_without_run_does_not_conflict(table):
    table.commit(entry(1, positions={T0: 5}), [table_file(1)])
    other = LakeTable(LOCAL, table.output)
    seal = Entry(run=0, kind="seal", created="now", checksums={"a": "00"})
    act_before_commit(other, lambda: table.commit(seal))
    other.commit(entry(2, positions={T0: 9}), [table_file(2)], since={T0: 5})
    assert table.checksums() == {"a": "00"}
    assert [each.run for each in table.entries()] == [1, 2]


def test_large_ledger_entry_is_stored_in_checked_file(table):
    gaps = tuple(Gap("t", 0, n, n + 1, "x" * 50) for n in range(0, 2000, 2))
    table.commit(entry(1, gaps=gaps, checksums={"a": "00"}))
    assert table.latest().gaps == gaps
    assert table.checksums() == {"a": "00"}
    [path] = [each.path for each in LOCAL.walk(f"{table.output}/_zkbroker/ledger")]
    [commit] = table.format.last_commits(1)
    assert path in commit["zkbroker"]["ledger"]
    assert len(json.dumps(commit["zkbroker"])) < 1000
    whole = f"{table.output}/_zkbroker/ledger/{path}"
    LOCAL.replace(whole, LOCAL.read(whole).replace(b"xx", b"xy", 1))
    with pytest.raises(AlteredCheckpoint, match="its checksum does not match"):
        table.entry(1)
    LOCAL.delete(whole)
    with pytest.raises(AlteredCheckpoint, match="does not exist"):
        table.entry(1)


def test_columns_can_be_added_but_not_changed(table):
    table.commit(entry(1), [table_file(1)])
    wider = base_schema().append(pa.field("status", pa.int32()))
    table.commit(entry(2), [table_file(2)], wider)
    assert "status" in table.newest().schema().names
    other = base_schema().append(pa.field("status", pa.string()))
    with pytest.raises(LoadError, match=r"status.*: give .* another name"):
        table.commit(entry(3), [table_file(3)], other)


def test_mapper_schemas_are_merged():
    one = pa.schema([("a", pa.int64())])
    two = one.append(pa.field("b", pa.string()))
    texts = [schema_to_text(one), schema_to_text(two), schema_to_text(None), schema_to_text(one)]
    assert schema_from_texts(texts) == two
    assert schema_from_texts([""]) is None
    with pytest.raises(LoadError, match="do not fit"):
        schema_from_texts([schema_to_text(pa.schema([("a", pa.string())])), schema_to_text(one)])


def test_partition_values_come_from_path():
    assert partition_values(table_file(1).path) == {"topic": "t", "date": "2015-05-17", "hour": "5"}


def test_positions_of_0_7_partitions_are_stored(table):
    source = TopicPartition("old", Partition07(1, 2))
    table.commit(entry(1, positions={source: 90}))
    assert table.latest().positions == {source: 90}
    assert table.positions([source]) == {source: 90}


@pytest.mark.parametrize("kind", TABLE_FORMATS)
def test_table_with_unset_time_is_readable(run, cluster, output, lake, kind):
    if kind == ICEBERG:
        pytest.importorskip("pyiceberg")
    values = [b'{"at": "0001-01-01T00:00:00Z"}', b'{"at": "2015-05-17T10:05:03Z"}']
    cluster.append("v", 0, values)
    run(topics=["v"], table=kind, event_time=EventTime.json("at"))
    assert verified(output).rows == 2
    if kind == ICEBERG:
        found = lake.table.newest().table.scan().to_arrow().column("date").to_pylist()
    else:
        import polars as pl

        found = pl.read_delta(str(output)).get_column("date").to_list()
    assert sorted(found) == [date(1, 1, 1), date(2015, 5, 17)]


def test_added_headers_column_is_readable(run, cluster, output):
    run()
    cluster.append("t", 0, [b"x"] * 5)
    run(headers=True)
    found = DeltaTable(str(output)).to_pyarrow_table()
    assert "headers" in found.column_names
    assert found.num_rows == 145 == verified(output).rows
    assert loaded_offsets(output)["t", 0] == [*range(105)]


def test_foreign_table_is_refused(run, output):
    write_deltalake(str(output), pa.table({"a": [1]}))
    for work in (run, lambda: LakeTable(LOCAL, str(output)).newest()):
        with pytest.raises(LoadError, match="a table that zkbroker-load did not make"):
            work()
    assert DeltaTable(str(output)).version() == 0
    assert not (output / "_zkbroker/runs").exists()


def test_lake_without_rows_has_no_files(run, cluster, output, command):
    with pytest.raises(LoadError, match="nothing was loaded into"):
        spark_loader.files(str(output))
    cluster.append("empty", 0, [])
    run(topics=["empty"])
    assert spark_loader.files(str(output)) == []
    assert command("files", output) == ""
    run(format="raw")
    with pytest.raises(LoadError, match="JSON or raw lines, which are not in the table"):
        spark_loader.files(str(output))
