"""A lake with an Iceberg table: loads, commands, crashes and other readers."""

import json
import shutil

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.table import StaticTable

from spark_loader import EventTime, LoadError, ValueColumns
from spark_loader.errors import AlteredCheckpoint
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import find_damage
from spark_loader.lake.operate import rewind, set_position
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.lake.replay import replay
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.partition import SinkOptions
from tests.support.inline_spark import Crash, CrashingFileSystem, crashes
from tests.support.lake_readers import COLUMNS, by_iceberg, reader_result
from tests.support.loading import LOCAL, verified

T0 = TopicPartition("t", 0)
BY_VALUE = EventTime.json("at")


@pytest.fixture(autouse=True)
def planner(monkeypatch):
    """Polars warns of a slower planner unless it is chosen."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


@pytest.fixture
def load(run):
    def load(filesystem=LOCAL, **fields):
        return run(filesystem, table="iceberg", **fields)

    return load


def by_polars(output):
    import polars as pl

    table = pl.scan_iceberg(StaticTable.from_metadata(str(output)), reader_override="native")
    return reader_result(table.select(*COLUMNS).collect().to_arrow())


def verified_by_readers(output):
    """Return the report of `verify`; independent readers have to read the same rows."""
    report = verified(output)
    for found in (by_iceberg(output), by_polars(output)):
        assert (found.rows, found.rows_crc) == (report.rows, report.rows_crc)
        assert len(set(found.places)) == found.rows
    return report


def test_loads_continue_and_other_readers_see_them(load, run, cluster, output, lake):
    assert load().rows == 140
    assert verified_by_readers(output).rows == 140
    cluster.append("t", 0, [b"x"] * 5)
    # The existing table determines the format.
    assert run().rows == 5
    assert (run().rows, verified_by_readers(output).rows) == (0, 145)
    assert lake.table.positions([T0]) == {T0: 105}
    assert len(lake.table.files(lake.table.version_of(1))) == 2
    assert not (output / "_delta_log").exists()


def test_readers_skip_files_by_partition_and_bounds(load, cluster, output):
    cluster.append("h", 0, [b'{"at": %d}' % (n * 3600) for n in range(4)])
    load(topics=["h"], event_time=BY_VALUE)
    table = StaticTable.from_metadata(str(output))

    def files(condition):
        return len([*table.scan(condition).plan_files()])

    assert [files("hour = 2"), files("hour > 1 and topic = 'h'"), files("topic = 't'")] == [1, 2, 0]
    assert [files("offset >= 3"), files("event_time < '1970-01-01T00:30:00+00:00'")] == [1, 1]
    assert table.scan("hour = 2", ("topic", "date", "hour", "offset")).to_arrow().to_pylist() == [
        {"topic": "h", "date": pa.scalar(0, pa.date32()).as_py(), "hour": 2, "offset": 2}
    ]


def test_columns_can_be_added_but_not_changed(load, cluster, output):
    cluster.append("c", 0, [b'{"n": 1, "d": "2.50"}'])
    load(topics=["c"])
    cluster.append("c", 0, [b'{"n": 2, "d": "2.50"}'])
    load(topics=["c"], columns=ValueColumns.json("n:int,d:decimal(9,2)"), headers=True)
    found = StaticTable.from_metadata(str(output)).scan(selected_fields=("n", "d", "headers"))
    rows = sorted(found.to_arrow().to_pylist(), key=lambda row: row["n"] or 0)
    assert [(row["n"], str(row["d"])) for row in rows] == [(None, "None"), (2, "2.50")]
    cluster.append("c", 0, [b'{"n": 3}'])
    with pytest.raises(Exception, match="column n would be string"):
        load(topics=["c"], columns=ValueColumns.json("n:string"))
    with pytest.raises(LoadError, match="column m: Iceberg has no int16, give it as int"):
        load(topics=["c"], columns=ValueColumns.json("m:short"))
    load(topics=["c"], columns=ValueColumns.json("n:int"))
    verified_by_readers(output)


def test_rewind_set_and_replay_work(load, cluster, output, lake):
    cluster.append("t", 0, [b'{"at": 1}'] * 3)
    load(event_time=BY_VALUE, max_quarantined=None)
    assert verified_by_readers(output).quarantined == 140
    load(event_time=BY_VALUE, max_quarantined=None)
    entry = replay(lake, SinkOptions(fallback="timestamp"))
    assert entry is not None
    assert entry.rows == 140
    assert verified_by_readers(output).rows == 143
    assert rewind(lake, [T0], 50) == {T0: 50}
    assert verified_by_readers(output).rows == 90
    assert load(event_time=BY_VALUE, fallback="timestamp").rows == 53
    assert set_position(lake, T0, 110) == 110
    report = verified_by_readers(output)
    assert (report.rows, report.gap_offsets) == (143, 7)


def test_optimize_merges_files_and_vacuum_is_refused(load, cluster, output, command, lake):
    for _ in range(3):
        cluster.append("h", 0, [b'{"at": %d}' % (n % 2 * 3600) for n in range(10)])
        load(topics=["h"], event_time=BY_VALUE)
    before = verified_by_readers(output)
    assert command("optimize", output) == "6 files before, 2 after: 6 merged into 2\n"
    after = verified_by_readers(output)
    assert (after.rows, after.rows_crc, after.unsealed) == (before.rows, before.rows_crc, 0)
    assert command("optimize", output) == "2 files before, 2 after: 0 merged into 0\n"
    with pytest.raises(LoadError, match="snapshots are its ledger and stay"):
        vacuum(lake)


def test_offsets_load_once_after_crash_at_any_step(load, cluster, output, tmp_path):
    cluster.append("t", 0, [b"poison"])
    counting = CrashingFileSystem(LOCAL)
    load(counting, output=str(tmp_path / "whole"))
    steps = counting.steps
    commits = [at for at, name in enumerate(steps) if "metadata.json" in name or "hint" in name]
    assert len(commits) >= 8
    for at in sorted({*commits, *range(0, len(steps), 7)}):
        place = tmp_path / f"stopped-{at}"
        with pytest.raises(Crash):
            load(CrashingFileSystem(LOCAL, at), output=str(place))
        load(output=str(place))
        assert verified_by_readers(place).rows + verified_by_readers(place).quarantined == 141


def test_crashed_optimize_is_completed_by_next(load, cluster, output, tmp_path):
    for _ in range(2):
        cluster.append("t", 0, [b"x"] * 3)
        load()
    before = verified_by_readers(output)
    # The table names its files by absolute paths, so the copy is put back at the same place.
    shutil.copytree(output, tmp_path / "kept")

    def optimize_again(filesystem):
        shutil.rmtree(output)
        shutil.copytree(tmp_path / "kept", output)
        optimize(Checkpoints(filesystem, str(output)))

    for _ in crashes(optimize_again, LOCAL, least=8, every=2):
        assert verified_by_readers(output).rows_crc == before.rows_crc
        optimize(Checkpoints(LOCAL, str(output)))
        assert (verified_by_readers(output).rows_crc, verified_by_readers(output).files) == (
            before.rows_crc,
            1,
        )


def test_moved_table_is_refused(load, output, tmp_path):
    load()
    shutil.move(output, tmp_path / "moved")
    with pytest.raises(AlteredCheckpoint, match="names its files by whole paths, so put it back"):
        Checkpoints(LOCAL, str(tmp_path / "moved")).table.newest()


def test_damaged_metadata_is_reported_and_adopted(load, output, command, lake):
    load()
    [newest] = [*(output / "metadata").glob("v2.metadata.json")]
    newest.write_text(newest.read_text()[:-10])
    damage = find_damage(lake)
    assert "version 2 of the table in" in damage.checkpoints[0]
    assert json.loads(command("adopt", output, "--json"))["run"] == 2
    assert verified_by_readers(output).rows == 140
    assert load().rows == 0
