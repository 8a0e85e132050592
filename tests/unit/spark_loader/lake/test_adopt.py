"""Data files are adopted as a new beginning, by the offsets that they hold."""

import json
import shutil
from dataclasses import replace

import pytest

from spark_loader.errors import AlteredCheckpoint, DamagedLake, LoadError
from spark_loader.lake import table as tables
from spark_loader.lake.adopt import adopt
from spark_loader.lake.formats import ICEBERG, TABLE_FORMATS
from spark_loader.lake.table import LakeTable
from spark_loader.legacy07.generation import GENERATION
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.event_time import EventTime
from spark_loader.sink.partition import MapperSink, SinkOptions
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import file_with, loaded_offsets
from tests.support.loading import LOCAL, verified
from tests.unit.spark_loader.legacy07.test_reader import FakeFetcher07
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.types import Partition07

OLD = TopicPartition("t", Partition07(3, 1))


def delete_state(output):
    """Delete the table and the checkpoints."""
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker")


@pytest.fixture(params=["parquet", "json", "raw"])
def kind(request):
    return request.param


def test_load_after_adopt_continues_after_last_offset(run, cluster, output, command, kind):
    run(format=kind)
    cluster.append("t", 0, [b"x"] * 10)
    run(format=kind)
    delete_state(output)
    printed = command("adopt", output)
    assert "3 data files with 150 rows taken over" in printed
    assert "t-0: the next load begins at offset 110" in printed
    assert verified(output).rows == 150
    cluster.append("t", 0, [b"x"] * 5)
    cluster.append("t", 2, [b"x"] * 5)
    assert run(format=kind).rows == 10
    assert verified(output).rows == 160
    assert "nothing to take over" in command("adopt", output)


def test_load_with_adopt_option_adopts_first(run, cluster, output, command):
    run()
    delete_state(output)
    cluster.append("t", 1, [b"x"] * 7)
    planned = ("--output", output, "-b", "h:1", "-t", "t", "--adopt", "--json")
    shown = json.loads(command("plan", *planned))
    assert shown["adopts"] == "2 data files with 140 rows taken over"
    assert [(m[0]["partition"], m[0]["from"]) for m in shown["mappers"]] == [(1, 40)]
    assert not (output / "_zkbroker").exists()
    result = run(adopt=True)
    assert (result.run, result.rows) == (2, 7)
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(47)]}
    verified(output)
    assert run(adopt=True).run == 0


def test_missing_offsets_become_gap_until_rewind(run, cluster, output, command):
    for _ in range(3):
        run()
        cluster.append("t", 0, [b"x"] * 10)
    file_with(output, 0, 105).unlink()
    printed = command("adopt", output)
    assert "gap t-0 [100, 110): no file that was taken over holds these offsets" in printed
    assert verified(output).gap_offsets == 10
    assert run().rows == 10
    command("rewind", output, "-t", "t", "--partition", 0, "--to", 100)
    assert run().rows == 30
    assert verified(output).gap_offsets == 0
    assert loaded_offsets(output)["t", 0] == [*range(130)]


def test_adopt_makes_earlier_entries_history(run, cluster, output, command, lake):
    run(group="g")
    cluster.append("t", 0, [b"x"] * 10)
    run(group="g")
    file_with(output, 0, 105).unlink()
    command("adopt", output)
    latest = lake.table.latest()
    assert (latest.run, latest.beginning, latest.group) == (3, 3, "g")
    assert [each.run for each in lake.table.entries()] == [3]
    cluster.append("t", 0, [b"x"] * 10)
    assert run().rows == 20
    assert [each.run for each in lake.table.entries()] == [3, 4]
    assert verified(output).rows == 160


def test_unreadable_table_log_is_moved_aside(run, cluster, output):
    for _ in range(2):
        run()
        cluster.append("t", 0, [b"x"] * 3)
    (output / f"_delta_log/{1:020d}.json").write_text("{")
    assert run(adopt=True).rows == 3
    assert len(list(output.glob("_zkbroker/replaced/*/*.json"))) == 3
    verified(output)


@pytest.mark.parametrize("kind", TABLE_FORMATS)
@pytest.mark.parametrize("lost", [0, -1])
def test_one_adopt_is_enough_after_loss_of_a_ledger_file(
    run, cluster, output, command, monkeypatch, kind, lost
):
    if kind == ICEBERG:
        pytest.importorskip("pyiceberg")
    monkeypatch.setattr(tables, "_INLINE_BYTES", 0)
    # Records in quarantine, so that a load reads the whole ledger.
    for _ in range(2):
        run(table=kind, event_time=EventTime.regex(r"^[5-9]$", "s"))
        cluster.append("t", 0, [b"x"] * 10)
    sorted(output.glob("_zkbroker/ledger/*.json"))[lost].unlink()
    with pytest.raises(DamagedLake, match="does not exist"):
        run()
    result = run(adopt=True)
    assert (result.run, result.rows) == (4, 10)
    assert LakeTable(LOCAL, str(output)).latest().beginning == 3
    assert verified(output).rows == 20
    assert run().run == 0


@pytest.mark.parametrize("damaged", ["plan.json", "offsets/00000.json"])
@pytest.mark.parametrize(("kind", "loads"), [("parquet", 0), ("parquet", 1), ("json", 1)])
def test_adopt_gives_up_stopped_run_that_cannot_be_read(
    run, cluster, output, command, damaged, kind, loads
):
    for _ in range(loads):
        run(format=kind)
        cluster.append("t", 0, [b"x"] * 10)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, "after publish 00000.json"), format=kind)
    [file] = output.glob(f"_zkbroker/runs/{loads + 1:06d}/{damaged}")
    file.write_text(file.read_text()[:-20])
    for _ in range(2):
        with pytest.raises(AlteredCheckpoint, match=f"{damaged} is damaged .* --adopt"):
            run(format=kind)
    planned = command("plan", output, "-b", "h:1", "-t", "t", "--adopt")
    assert "would begin again: " in planned
    run(format=kind, adopt=True)
    assert verified(output).rows == cluster.end("t", 0) + 40
    assert run(format=kind, adopt=True).run == 0
    assert "nothing to take over" in command("adopt", output)


def test_adopt_keeps_plan_of_unknown_version(run, output):
    run()
    plan = next(output.glob("_zkbroker/runs/*/plan.json"))
    plan.write_text(plan.read_text().replace('"version": 1', '"version": 2'))
    shutil.rmtree(output / "_delta_log")
    with pytest.raises(LoadError, match="version 2"):
        run(adopt=True)


def test_offsets_in_two_files_are_refused(run, cluster, output, command):
    run()
    first = file_with(output, 0, 0)
    delete_state(output)
    shutil.copy(first, first.with_name(first.name.replace(".parquet", "x.parquet")))
    with pytest.raises(LoadError, match=r"t-0 \[0, 100\)") as found:
        command("adopt", output)
    assert first.name in str(found.value)
    assert first.name.replace(".parquet", "x.parquet") in str(found.value)
    assert not list((output / "_zkbroker").rglob("*.json"))


@pytest.mark.parametrize("damage", ["cut", "strange"])
def test_unreadable_file_is_refused(run, output, command, damage):
    run()
    file = file_with(output, 0, 0)
    delete_state(output)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        file = file.with_name("other.csv")
        file.write_text("1,2")
    with pytest.raises(LoadError, match=r"cannot be taken over .*: move it out of") as found:
        command("adopt", output)
    assert file.name in str(found.value)


def test_raw_file_with_unknown_offsets_is_refused(cluster, run, output, command):
    cluster.append("t", 2, [b"two\nlines"])
    run(format="raw")
    delete_state(output)
    with pytest.raises(LoadError, match="2 rows and its name 1 offsets"):
        command("adopt", output)


def test_renamed_parquet_file_is_adopted(run, output, command, lake):
    run()
    first = file_with(output, 1, 0)
    delete_state(output)
    first.rename(first.with_name("by-hand.parquet"))
    command("adopt", output)
    latest = lake.table.latest()
    assert latest.positions == {TopicPartition("t", 0): 100, TopicPartition("t", 1): 40}
    verified(output)


def test_directory_without_data_files_is_refused(output, command):
    output.mkdir()
    with pytest.raises(LoadError, match="there is no lake at"):
        command("adopt", output)
    (output / "mine.txt").touch()
    with pytest.raises(LoadError, match="holds no data files"):
        command("adopt", output)
    assert not list(output.rglob("*.json"))


def test_adopt_gives_up_half_published_run(run, cluster, output, command):
    given = {"split_bytes": 300, "format": "json"}
    run(**given)
    cluster.append("t", 0, [b"x"] * 300)
    cluster.append("t", 1, [b"x"] * 300)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, "after rename"), **given)
    shutil.rmtree(output / "_delta_log")
    result = run(adopt=True, **given)
    assert not list(output.glob("_zkbroker/runs/*/staging/*"))
    assert result.rows > 0
    report = verified(output)
    assert report.rows + report.gap_offsets == 740


def test_adopt_keeps_quarantine(run, output, command):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker/runs")
    command("adopt", output)
    assert (verified(output).rows, verified(output).quarantined) == (10, 130)


@pytest.mark.parametrize(
    ("entries", "quarantined"),
    [
        ([[b"bad"], [b"bad"], [b"1"]], 2),
        ([[b"bad", b"1"], [b"2", b"bad"], [b"bad"]], 3),
        ([[b"bad", b"1"]], 1),
    ],
)
def test_adopt_keeps_quarantine_of_0_7(output, lake, entries, quarantined):
    log = b"".join(
        build_wrapper(Codec.GZIP, b"".join(map(build_message, each))) for each in entries
    )
    options = SinkOptions(event_time=EventTime.regex(r"^\d+$", "s"))
    sink = MapperSink(LOCAL, lake.output, lake.staging(1), "token", options)
    sink.begin(OLD)
    reader = GENERATION.reader(FakeFetcher07(log), positions=True, fetch_bytes=len(log))
    for batch in reader.read(OffsetRange(*OLD, 0, len(log))):
        sink.write(batch)
    sink.finish()
    lake.unstage(sink.quarantined)
    adopted = adopt(lake)
    assert adopted.quarantined == tuple(
        replace(each, staged=each.path) for each in sink.quarantined
    )
    report = verified(output)
    assert (report.quarantined, adopted.positions) == (quarantined, {OLD: len(log)})
