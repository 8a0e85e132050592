"""Taking data files over as a new beginning, from what they themselves hold."""

import json
import shutil

import pytest

from spark_loader.errors import LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.event_time import EventTime
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import file_with, loaded_offsets
from tests.support.loading import AT, LOCAL, proved


def forget(output):
    """Lose the table and the checkpoints."""
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker")


@pytest.fixture(params=["parquet", "json", "raw"])
def kind(request):
    return request.param


def test_after_adopting_a_load_goes_on_where_the_files_end(run, cluster, output, command, kind):
    run(format=kind)
    cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
    run(format=kind)
    forget(output)
    said = command("adopt", "--output", output)
    assert "3 data files with 150 rows taken over" in said
    assert "t-0: the next load begins at offset 110" in said
    assert proved(output).rows == 150
    cluster.append("t", 0, [b"x"] * 5, timestamp_ms=AT)
    cluster.append("t", 2, [b"x"] * 5, timestamp_ms=AT)
    assert run(format=kind).rows == 10
    assert proved(output).rows == 160
    assert "nothing to take over" in command("adopt", "--output", output)


def test_the_flag_of_a_load_adopts_and_loads(run, cluster, output, command):
    run()
    forget(output)
    cluster.append("t", 1, [b"x"] * 7, timestamp_ms=AT)
    planned = ("--output", output, "--bootstrap", "h:1", "--topic", "t", "--adopt", "--json")
    shown = json.loads(command("plan", *planned))
    assert shown["adopts"] == "2 data files with 140 rows taken over"
    assert [(m[0]["partition"], m[0]["from"]) for m in shown["mappers"]] == [(1, 40)]
    assert not (output / "_zkbroker").exists()
    result = run(adopt=True)
    assert (result.run, result.rows) == (2, 7)
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(47)]}
    proved(output)
    assert run(adopt=True).run == 0


def test_what_no_file_holds_is_a_gap_and_a_rewind_loads_it(run, cluster, output, command):
    for _ in range(3):
        run()
        cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
    file_with(output, 0, 105).unlink()
    said = command("adopt", "--output", output)
    assert "gap t-0 [100, 110): no file that was taken over holds these offsets" in said
    assert proved(output).gap_offsets == 10
    assert run().rows == 10
    command("rewind", "--output", output, "--topic", "t", "--partition", 0, "--to", 100)
    assert run().rows == 30
    assert proved(output).gap_offsets == 0
    assert loaded_offsets(output)["t", 0] == [*range(130)]


def test_entries_before_it_are_history(run, cluster, output, command):
    run(group="g")
    cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
    run(group="g")
    file_with(output, 0, 105).unlink()
    command("adopt", "--output", output)
    table = Checkpoints(LOCAL, str(output)).table
    latest = table.latest()
    assert (latest.run, latest.beginning, latest.group) == (3, 3, "g")
    assert [each.run for each in table.entries()] == [3]
    cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
    assert run().rows == 20
    assert [each.run for each in table.entries()] == [3, 4]
    assert proved(output).rows == 160


def test_a_log_that_cannot_be_read_is_put_aside(run, cluster, output):
    for _ in range(2):
        run()
        cluster.append("t", 0, [b"x"] * 3, timestamp_ms=AT)
    (output / f"_delta_log/{1:020d}.json").write_text("{")
    assert run(adopt=True).rows == 3
    assert len(list(output.glob("_zkbroker/replaced/*/*.json"))) == 3
    proved(output)


def test_plans_of_a_later_release_are_not_given_up(run, output):
    run()
    plan = next(output.glob("_zkbroker/runs/*/plan.json"))
    plan.write_text(plan.read_text().replace('"version": 1', '"version": 2'))
    shutil.rmtree(output / "_delta_log")
    with pytest.raises(LoadError, match="version 2"):
        run(adopt=True)


def test_offsets_in_two_files_are_refused_with_both_names(run, cluster, output, command):
    run()
    first = file_with(output, 0, 0)
    forget(output)
    shutil.copy(first, first.with_name(first.name.replace(".parquet", "x.parquet")))
    with pytest.raises(LoadError, match=r"t-0 \[0, 100\)") as found:
        command("adopt", "--output", output)
    assert first.name in str(found.value)
    assert first.name.replace(".parquet", "x.parquet") in str(found.value)
    assert not list((output / "_zkbroker").rglob("*.json"))


@pytest.mark.parametrize("harm", ["cut", "strange"])
def test_a_file_that_cannot_be_read_is_named(run, output, command, harm):
    run()
    file = file_with(output, 0, 0)
    forget(output)
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-20])
    else:
        file = file.with_name("other.csv")
        file.write_text("1,2")
    with pytest.raises(LoadError, match=r"cannot be taken over .*: move it out of") as found:
        command("adopt", "--output", output)
    assert file.name in str(found.value)


def test_raw_lines_whose_offsets_are_unknown_are_refused(cluster, run, output, command):
    cluster.append("t", 2, [b"two\nlines"], timestamp_ms=AT)
    run(format="raw")
    forget(output)
    with pytest.raises(LoadError, match="2 rows and its name 1 offsets"):
        command("adopt", "--output", output)


def test_parquet_under_another_name_is_known_by_its_columns(run, output, command):
    run()
    first = file_with(output, 1, 0)
    forget(output)
    first.rename(first.with_name("by-hand.parquet"))
    command("adopt", "--output", output)
    latest = Checkpoints(LOCAL, str(output)).table.latest()
    assert latest.positions == {TopicPartition("t", 0): 100, TopicPartition("t", 1): 40}
    proved(output)


def test_an_empty_directory_has_nothing_to_adopt(output, command):
    output.mkdir()
    with pytest.raises(LoadError, match="there is no lake at"):
        command("adopt", "--output", output)
    (output / "mine.txt").touch()
    with pytest.raises(LoadError, match="holds no data files"):
        command("adopt", "--output", output)
    assert not list(output.rglob("*.json"))


def test_a_run_that_was_half_published_is_given_up(run, cluster, output, command):
    given = {"split_bytes": 300, "format": "json"}
    run(**given)
    cluster.append("t", 0, [b"x"] * 300, timestamp_ms=AT)
    cluster.append("t", 1, [b"x"] * 300, timestamp_ms=AT)
    steps = CrashingFileSystem(LOCAL)
    shutil.copytree(output, f"{output}-whole")
    run(steps, output=f"{output}-whole", **given)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, steps.steps.index("after rename") + 1), **given)
    shutil.rmtree(output / "_delta_log")
    result = run(adopt=True, **given)
    assert not list(output.glob("_zkbroker/runs/*/staging/*"))
    assert result.rows > 0
    report = proved(output)
    assert report.rows + report.gap_offsets == 740


def test_quarantined_records_stay_in_quarantine(run, output, command):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker/runs")
    command("adopt", "--output", output)
    assert (proved(output).rows, proved(output).quarantined) == (10, 130)
