"""Optimize merges small files and vacuum deletes old ones; readers see each row once."""

import datetime as dt
import json
import os
import shutil
import time

import pytest
from deltalake import DeltaTable

from spark_loader import EventTime, LoadError
from spark_loader.lake.adopt import adopt
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import find_damage
from spark_loader.lake.optimize import optimize, vacuum
from tests.support.inline_spark import Crash, CrashingFileSystem, crashes
from tests.support.loaded import loaded_files, loaded_offsets
from tests.support.loading import LOCAL, verified

BY_VALUE = EventTime.json("at")
WHOLE = {("h", 0): [*range(40)], ("h", 1): [*range(40)]}


@pytest.fixture
def lake(run, cluster, output):
    """A lake of four hours and two partitions in four loads."""
    for number in range(4):
        for partition in range(2):
            values = [b'{"at": %d, "n": %d}' % (n % 4 * 3600, number) for n in range(10)]
            cluster.append("h", partition, values)
        run(topics=["h"], event_time=BY_VALUE)
    return Checkpoints(LOCAL, str(output))


def test_optimize_merges_each_hour_into_one_file(lake, output, run, cluster):
    before = verified(output)
    done = optimize(lake)
    assert (done.before, done.after, done.removed, done.added) == (32, 4, 32, 4)
    assert len(loaded_files(output)) == 4
    assert loaded_offsets(output) == WHOLE
    after = verified(output)
    assert (after.rows, after.rows_crc, after.unsealed) == (before.rows, before.rows_crc, 0)
    assert after.unreferenced == 32
    again = optimize(lake)
    assert (again.before, again.removed) == (4, 0)
    cluster.append("h", 0, [b'{"at": 0}'])
    assert run(topics=["h"], event_time=BY_VALUE).rows == 1
    verified(output)
    # Earlier runs can still be read.
    assert len(lake.table.files(lake.table.version_of(4))) == 32


def test_recent_hours_are_not_merged(lake, output):
    now = dt.datetime(1970, 1, 1, 4, 30, tzinfo=dt.UTC)
    done = optimize(lake, older_than_hours=2, now=now)
    assert done.added == 2
    assert {path.parts[-2] for path in loaded_files(output) if "c000" in path.name} == {
        "hour=0",
        "hour=1",
    }
    assert loaded_offsets(output) == WHOLE


def test_hours_end_in_time_zone_of_loads(run, cluster, output):
    at = EventTime.json("at", zone="America/Los_Angeles")
    for _ in range(2):
        # 02:00 and 03:00 UTC are hours 18 and 19 of the day before.
        cluster.append("h", 0, [b'{"at": %d}' % (n * 3600) for n in (2, 3)])
        run(topics=["h"], event_time=at)
    lake = Checkpoints(LOCAL, str(output))
    assert lake.table.latest().zones == ("America/Los_Angeles",)
    for minute, merged in ((59, 0), (0, 2)):
        now = dt.datetime(1970, 1, 1, 3 if minute == 0 else 2, minute, tzinfo=dt.UTC)
        assert optimize(lake, older_than_hours=0, now=now).removed == merged
    # The library names directories as loads do.
    assert len([*output.glob("topic=h/date=1969-12-31/hour=*")]) == 2


def test_large_files_are_not_merged(lake, output):
    assert optimize(lake, target_bytes=10).removed == 0


def test_crashed_optimize_is_completed_by_next(lake, output, tmp_path):
    copy = tmp_path / "copy"

    def optimize_copy(filesystem):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(output, copy)
        optimize(Checkpoints(filesystem, str(copy)))

    for _ in crashes(optimize_copy, LOCAL, least=2):
        assert loaded_offsets(copy) == WHOLE
        verified(copy)
        optimize(Checkpoints(LOCAL, str(copy)))
        assert (loaded_offsets(copy), verified(copy).unsealed) == (WHOLE, 0)
        assert len(loaded_files(copy)) == 4


def test_vacuum_deletes_only_unneeded_files(lake, output, run, cluster):
    optimize(lake)
    assert vacuum(lake) == []
    with pytest.raises(LoadError, match="--allow-short-retention"):
        vacuum(lake, retention_hours=1)
    doomed = vacuum(lake, retention_hours=0, allow_short=True, dry_run=True)
    assert len(doomed) == 32 == verified(output).unreferenced
    assert vacuum(lake, retention_hours=0, allow_short=True) == doomed
    assert len(list(output.rglob("*.parquet"))) == 4
    assert loaded_offsets(output) == WHOLE
    assert verified(output).unreferenced == 0
    assert not find_damage(lake)


def test_vacuum_keeps_files_that_are_not_of_the_lake(lake, output, run, cluster):
    first = loaded_files(output)[0]
    adopted = first.rename(first.with_name("by-hand.parquet"))
    shutil.rmtree(output / "_delta_log")
    adopt(lake)
    optimize(lake)
    shutil.copytree(output, output / "copy")
    others = ["README.md", "topic=h/notes.txt", "topic=h/date=1970-01-01/hour=0/by-hand.csv"]
    for name in others:
        (output / name).write_text("mine")
    copied = sorted((output / "copy").rglob("*.*"))
    doomed = vacuum(lake, retention_hours=0, allow_short=True)
    assert str(adopted.relative_to(output)) in doomed
    assert len(doomed) == 32
    assert [name for name in others if not (output / name).exists()] == []
    assert sorted((output / "copy").rglob("*.*")) == copied
    assert verified(output / "copy").rows == 80


def test_vacuum_keeps_json_files_and_files_of_unfinished_run(lake, output, run, cluster):
    cluster.append("j", 0, [b'{"at": 0}'] * 5)
    run(topics=["j"], event_time=BY_VALUE, format="json")
    cluster.append("h", 0, [b'{"at": 0}'] * 5)
    crashing = CrashingFileSystem(LOCAL, "before commit of the table")
    with pytest.raises(Crash):
        run(crashing, topics=["h"], event_time=BY_VALUE)
    assert vacuum(lake, retention_hours=0, allow_short=True) == []
    result = run(topics=["h"], event_time=BY_VALUE)
    assert (result.resumed, result.adopted, result.rows) == (True, 1, 5)
    verified(output)


def test_vacuum_keeps_files_of_a_run_that_is_published_meanwhile(
    lake, output, run, cluster, monkeypatch
):
    cluster.append("j", 0, [b'{"at": 0}'] * 5)
    crashing = CrashingFileSystem(LOCAL, "before commit of the table")
    with pytest.raises(Crash):
        run(crashing, topics=["j"], event_time=BY_VALUE, format="json")
    month_ago = time.time() - 30 * 86_400
    for path in output.rglob("*.jsonl*"):
        os.utime(path, (month_ago, month_ago))
    under_way = lake.under_way

    def published_first():
        assert run(topics=["j"], event_time=BY_VALUE, format="json").adopted == 1
        return under_way()

    monkeypatch.setattr(lake, "under_way", published_first)
    assert vacuum(lake) == []
    verified(output)


def test_optimize_lock_excludes_vacuum_but_not_loads(lake, run, cluster):
    with LOCAL.lock(lake.path("optimize.lock"), "me"):
        with pytest.raises(LoadError, match=r"an optimize of this output is running: .*me"):
            optimize(lake)
        cluster.append("h", 0, [b'{"at": 0}'])
        assert run(topics=["h"], event_time=BY_VALUE).rows == 1
        with pytest.raises(LoadError, match="optimize"):
            vacuum(lake)


def test_optimize_succeeds_beside_committing_load(lake, output, run, cluster):
    """The library merges its commit with the one that came before it."""
    table = lake.table.format
    inner = table._for_writing
    loaded = []

    def beside_a_load():
        found = inner()
        if not loaded:
            cluster.append("h", 0, [b'{"at": 0}'])
            loaded.append(run(topics=["h"], event_time=BY_VALUE).rows)
        return found

    table._for_writing = beside_a_load
    optimize(lake)
    assert loaded == [1]
    assert loaded_offsets(output)["h", 0] == [*range(41)]
    verified(output)


def test_commands_print_file_counts(lake, output, command):
    assert len(command("files", output).splitlines()) == 32
    printed = command("optimize", output, "--older-than", 1)
    assert printed == "32 files before, 4 after: 32 merged into 4\n"
    assert len(json.loads(command("files", output, "--json"))) == 4
    assert len(command("files", output, "--run", 2).splitlines()) == 16
    printed = command("vacuum", output, "--retention", 0, "--allow-short-retention",
                   "--dry-run")  # fmt: skip
    assert printed == "32 files would be deleted\n"
    done = json.loads(command("optimize", output, "--json"))
    assert done == {"before": 4, "after": 4, "removed": 0, "added": 0}
    assert DeltaTable(str(output)).to_pyarrow_table().num_rows == 80
