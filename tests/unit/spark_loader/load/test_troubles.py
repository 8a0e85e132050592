"""Failures during a load: their errors, and the data that is still published."""

import json
import shutil
from pathlib import Path

import pytest

from spark_loader import DataLoss, EventTime, LoadError, QuarantineLimit
from spark_loader.cli import cli
from spark_loader.errors import DamagedLog
from spark_loader.lake import audit as books
from tests.support.directory_cluster import DirectoryView
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_offsets
from tests.support.loading import AT, LOCAL, damage, verified
from zkbroker.errors import RegistryError


@pytest.mark.parametrize("fallback", ["quarantine", "timestamp", "load-time"])
@pytest.mark.parametrize("event_time", [EventTime(), EventTime.regex("^(9)$", "s")])
def test_timestamp_out_of_calendar_does_not_stop_load(cluster, run, output, fallback, event_time):
    for unit in (1, 1000, 1_000_000):
        cluster.append("odd", 0, [b"v"], timestamp_ms=AT * unit)
    result = run(topics=["odd"], fallback=fallback, event_time=event_time)
    loaded = 3 if fallback == "load-time" else 1
    if fallback == "quarantine" and event_time.pattern:
        loaded = 0
    assert (result.rows, result.quarantined) == (loaded, 3 - loaded)
    verified(output)


def test_deleted_offsets_fail_load_or_become_gap(run, cluster, output, command, lake):
    run()
    cluster.append("t", 0, [b"x"] * 100)
    cluster.delete_before("t", 0, 150)
    with pytest.raises(DataLoss, match=r"t-0 \[100, 150\)"):
        run()
    assert "t-0: 50 offsets were deleted before being loaded" in command(
        "status", output, "-b", "h:1"
    )
    result = run(policies={"t:0": "earliest"})
    assert result.rows == 50
    [gap] = books.gap_ledger(lake)
    assert (gap.partition, gap.start, gap.until) == (0, 100, 150)
    assert "gap t-0 [100, 150): deleted" in command("status", output)
    assert verified(output).gap_offsets == 50
    assert [each.difference for each in books.audit(lake)] == [0] * 3


def test_offsets_deleted_after_planning_follow_policy(run, cluster, output):
    steps = CrashingFileSystem(LOCAL, 1)
    with pytest.raises(Crash):
        run(steps)
    cluster.delete_before("t", 0, 60)
    with pytest.raises(DataLoss, match=r"t-0 \[0, 60\)[^$]*All else was loaded: 40 rows, run 1"):
        run()
    assert verified(output).rows == 40
    result = run(on_out_of_range="earliest")
    assert (result.resumed, result.rows) == (False, 40)
    assert verified(output).gap_offsets == 60
    assert loaded_offsets(output) == {("t", 0): [*range(60, 100)], ("t", 1): [*range(40)]}


def test_deleted_offsets_do_not_block_other_partitions(run, cluster, output, command):
    run()
    cluster.append("t", 0, [b"x"] * 10)
    cluster.append("t", 1, [b"x"] * 10)
    cluster.delete_before("t", 0, 105)
    printed = command("plan", output, "-b", "h:1", "-t", "t")
    assert "would be held back: t-0 [100, 105)" in printed
    for rows in (10, 0):
        with pytest.raises(DataLoss, match=r"t-0 \[100, 105\)") as failed:
            run()
        assert (f"All else was loaded: {rows} rows" in str(failed.value)) == (rows > 0)
    assert verified(output).rows == 150
    assert run(on_out_of_range="nearest").rows == 5
    assert verified(output).gap_offsets == 5


def test_topic_deleted_after_planning_does_not_block_others(run, cluster, output):
    cluster.append("gone", 0, [b"x"] * 3)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 1), topics=["t", "gone"])
    shutil.rmtree(cluster._file("gone", 0).parent)
    with pytest.raises(DataLoss, match=r"gone-0 \[0, 3\)"):
        run()
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert run().rows == 0
    verified(output)


def test_ranges_before_damage_in_split_partition_are_published(run, cluster, output):
    for _ in range(3):
        cluster.append("t", 0, [b"y"] * 100)
    damage(cluster, "t", 0, entry=1)
    size = cluster._file("t", 0).stat().st_size
    with pytest.raises(DamagedLog, match=r"t-0 \[100, 160\).*CRC"):
        run(split_bytes=-(-size // 4))
    assert loaded_offsets(output) == {("t", 0): [*range(80)], ("t", 1): [*range(40)]}
    verified(output)
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []
    result = run(keep_damaged=True)
    assert (result.rows, result.quarantined) == (220, 1)
    assert loaded_offsets(output)["t", 0] == [*range(100), *range(200, 400)]
    verified(output)


def test_shorter_recreated_topic_fails_under_every_policy(run, cluster):
    run()
    cluster._file("t", 0).write_bytes(b"")
    cluster.append("t", 0, [b"new"])
    with pytest.raises(DataLoss, match="created again"):
        run(on_out_of_range="earliest")


def test_file_uri_is_accepted_as_output(run, output, command):
    where = f"file://{output}"
    assert run(output=where).rows == 140
    assert loaded_offsets(output)["t", 1] == [*range(40)]
    assert "no gap, no duplicate" in command("verify", where)


def test_relative_output_becomes_absolute(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(output="lake")
    assert all(path.startswith(f"{tmp_path}/lake/topic=t/") for path in result.files)


def test_status_shows_deleted_and_added_partitions(run, cluster, output, command):
    cluster.append("gone", 0, [b"x"] * 5)
    run(topics=["t", "gone"], group="g")
    shutil.rmtree(cluster._file("gone", 0).parent)
    cluster.append("t", 3, [b"x"] * 7)
    where = ["--output", output, "-b", "h:1"]
    shown = json.loads(command("status", *where, "--json"))["partitions"]
    assert [(e["topic"], e["partition"], e["position"], e["lag"], e["gone"]) for e in shown] == [
        ("gone", 0, 5, None, True),
        ("t", 0, 100, 0, False),
        ("t", 1, 40, 0, False),
        ("t", 2, 0, 0, False),
        ("t", 3, None, 7, False),
    ]
    printed = command("status", *where)
    assert "gone-0 is no longer in the cluster" in printed
    assert "t-3 is new" in printed
    assert {e["difference"] for e in json.loads(command("audit", *where, "--json"))} == {0}
    cluster._file("t", 1).unlink()
    cluster.append("t", 1, [b"x"] * 3)
    assert "t-1: its log ends before the position" in command("status", *where)


def test_file_system_error_is_reported(run, output):
    run()
    with pytest.raises(LoadError, match=r"Permission denied|Not a directory"):
        cli.main(["adopt", "--output", str(output / "_zkbroker/runs/000001/plan.json")],
                 standalone_mode=False)  # fmt: skip


def test_failed_group_commit_keeps_published_run(run, cluster, output, monkeypatch):
    def away(*_):
        raise RegistryError("no ZooKeeper answered")

    monkeypatch.setattr(DirectoryView, "commit_group_offsets", away)
    with pytest.raises(LoadError, match=r"run 1 is published with 140 rows.*no ZooKeeper answered"):
        run(group="g")
    verified(output)
    monkeypatch.undo()
    assert run(group="g").rows == 0
    assert cluster.view(None).group_offsets("g", []) == {("t", 0): 100, ("t", 1): 40, ("t", 2): 0}


def test_longer_recreated_topic_is_data_loss(run, cluster, output, command):
    created = Path(cluster.path) / "created.json"
    created.write_text('{"t": 1431857103000}')
    run()
    assert run().rows == 0
    created.write_text('{"t": 1431943503000}')
    cluster.append("t", 0, [b"new"] * 50)
    cluster.append("t", 2, [b"new"] * 5)
    for loaded in (5, 0):
        with pytest.raises(
            DataLoss, match=r"t-0: offsets below .* were loaded before the topic was created"
        ) as failed:
            run(on_out_of_range="earliest")
        assert (f"{loaded} rows" in str(failed.value)) == (loaded > 0)
    command("set", output, "-t", "t", "--partition", 0, "--to", 100)
    assert run().rows == 50
    assert run().rows == 0
    verified(output)
    created.write_text('{"t": 1432000000000}')
    command("rewind", output, "-t", "t", "--to", 0)
    assert [run().rows for _ in range(2)] == [195, 0]
    verified(output)


def test_plan_of_earlier_release_is_resumed(run, cluster, output):
    """Its documents have no creation times of topics, no inventory and no checksum."""
    run()
    cluster.append("t", 1, [b"x"] * 5)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 3))
    for path in output.glob("_zkbroker/**/*.json"):
        content = json.loads(path.read_text())
        for name in ("topics_created_ms", "beginning", "lake", "earlier", "checksum"):
            content.pop(name, None)
        path.write_text(json.dumps(content))
    result = run()
    assert (result.resumed, result.rows) == (True, 5)
    verified(output)


def test_quarantine_limit_publishes_nothing(run, output, lake):
    with pytest.raises(QuarantineLimit, match=r"more than 50 records.*t-0 at offset"):
        run(event_time=EventTime.regex(r"^[5-9]$", "s"), max_quarantined=50)
    assert not lake.table.exists()
    assert run().resumed
    verified(output)
