"""Loads, formats, quarantine and the operator's commands, on an in-process stand-in for Spark."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_loader import DataLoss, EventTime, Loader, LoadError, QuarantineLimit, cli_state, operate
from spark_loader.checkpoint import Checkpoints
from spark_loader.cli import cli
from spark_loader.errors import DamagedLog
from spark_loader.files import LocalFileSystem, sha256_of
from spark_loader.ledger import live
from spark_loader.positions import LATEST_BOUND, AtOffsets, AtTime, TopicPartition
from spark_loader.reader import RangeReader
from spark_loader.sink import PartitionSink, SinkOptions
from spark_loader.splits import OffsetRange
from spark_loader.verify import verify
from tests.support.directory_cluster import DirectoryCluster, DirectoryView
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loaded import loaded_offsets
from zkbroker.errors import ConfigError, RegistryError
from zkbroker.records import iter_entries

LOCAL = LocalFileSystem(sync=False)
AT = 1_431_857_103_000


@pytest.fixture
def cluster(tmp_path):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    for partition, count in ((0, 100), (1, 40), (2, 0)):
        cluster.append("t", partition, [b"%d" % n for n in range(count)], timestamp_ms=AT)
    return cluster


@pytest.fixture
def output(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def run(cluster, output):
    def load(filesystem=LOCAL, **fields):
        given = {"bootstrap": "h:1", "topics": ["t"], "output": str(output), **fields}
        return Loader(access=cluster, filesystem=filesystem, **given).run(InlineSpark())

    return load


@pytest.fixture
def command(monkeypatch, cluster, capsys):
    monkeypatch.setattr(cli_state, "ACCESS", cluster)

    def invoke(*arguments):
        cli.main([str(each) for each in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return invoke


def damage(cluster, topic, partition, entry):
    file = cluster._file(topic, partition)
    data = bytearray(file.read_bytes())
    found = list(iter_entries(bytes(data)))[entry]
    data[found.position + found.size - 2] ^= 0xFF
    file.write_bytes(bytes(data))


def proved(output):
    report = verify(LOCAL, str(output))
    assert report.problems == []
    return report


def test_a_first_run_begins_where_it_is_told(cluster, tmp_path):
    begun = {}
    for name, starting in (
        ("latest", LATEST_BOUND),
        ("offsets", AtOffsets({TopicPartition("t", p): p * 10 for p in range(3)})),
        ("time", AtTime(AT)),
    ):
        lake = tmp_path / name
        if name == "offsets":
            cluster.append("t", 2, [b"x"] * 30, timestamp_ms=AT)
        loader = Loader(
            bootstrap="h:1",
            topics=["t"],
            output=str(lake),
            starting=starting,
            access=cluster,
            filesystem=LOCAL,
        )
        begun[name] = [loader.run(InlineSpark()).rows]
        cluster.append("t", 1, [b"x"] * 5, timestamp_ms=AT)
        begun[name].append(loader.run(InlineSpark()).rows)
        proved(lake)
    assert begun == {"latest": [0, 5], "offsets": [145, 5], "time": [180, 5]}


def test_a_partition_added_later_is_loaded_from_its_beginning(run, cluster):
    run(starting=LATEST_BOUND)
    cluster.append("t", 3, [b"new"] * 7)
    assert run(starting=LATEST_BOUND).rows == 7


def test_topics_by_whitelist_and_blacklist(run, cluster, output):
    cluster.append("u", 0, [b"x"] * 3)
    cluster.append("v", 0, [b"x"] * 3)
    result = run(topics=[], whitelist="t|u|v", blacklist="v")
    assert {each.topic for each in result.ranges} == {"t", "u"}
    with pytest.raises(LoadError, match="no topic matches"):
        run(topics=[], whitelist="nothing")
    with pytest.raises(ConfigError, match="whitelist"):
        run(topics=[])


def test_caps_by_records_bytes_and_time(run, output):
    assert run(max_records=30).rows == 30
    capped = run(max_bytes=500)
    assert 0 < capped.rows < 110
    assert capped.lag == 110 - capped.rows
    assert run(max_seconds=60).lag == 0
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    proved(output)


def test_large_partitions_are_split_and_small_ones_share_a_mapper(run, output):
    result = run(split_bytes=300)
    plan = Checkpoints(LOCAL, str(output)).plan(1)
    assert len(plan.mappers) > 3
    assert [(each.partition, each.start, each.until) for each in result.ranges] == [
        (0, 0, 100),
        (1, 0, 40),
    ]
    proved(output)


def test_small_partitions_share_a_mapper(run, output):
    run(group_bytes=1 << 20)
    assert len(Checkpoints(LOCAL, str(output)).plan(1).mappers) == 1
    proved(output)


def test_files_are_closed_at_the_target_size(run, cluster, output):
    cluster.append("t", 2, [b"x" * 1000] * 300, timestamp_ms=AT, per_batch=10)
    run(target_bytes=20_000, fetch_bytes=30_000, compression="none", format="raw")
    names = [path.name for path in output.glob("topic=t/*/*/t+00002+*")]
    assert len(names) > 3
    proved(output)


@pytest.mark.parametrize("kind", ["json", "raw"])
def test_other_formats_hold_the_same_values(run, output, kind, cluster):
    cluster.append("t", 2, [b"\xff", None], keys=[b"k", None], timestamp_ms=AT)
    assert run(format=kind).rows == 142
    report = proved(output)
    assert report.rows == 142
    [file] = output.glob("topic=t/date=2015-05-17/hour=10/t+00002+*")
    lines = file.read_bytes().split(b"\n")[:-1]
    if kind == "raw":
        assert lines == [b"\xff", b""]
    else:
        first, second = map(json.loads, lines)
        assert (first["key"], first["value_base64"], first["offset"]) == ("k", "/w==", 0)
        assert (second["key"], second["value"], second["timestamp"]) == (None, None, AT)


def test_headers_are_kept_when_asked_for(run, cluster, output):
    cluster.append("t", 2, [b"v"], headers=[(("h", b"1"),)], timestamp_ms=AT)
    run(format="json", headers=True)
    [file] = output.glob("topic=t/*/*/t+00002+*")
    assert json.loads(file.read_text())["headers"] == [{"key": "h", "value": "1"}]


def test_records_without_a_time_are_quarantined_verbatim_and_replayed(run, output, command):
    first = run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    assert (first.rows, first.quarantined) == (10, 130)
    proved(output)
    _, [one, _] = live(Checkpoints(LOCAL, str(output)).manifests())
    record = json.loads((output / one.path).read_text().splitlines()[0])
    assert (record["offset"], record["value"]) == (0, "MA==")
    assert "does not match" in record["reason"]
    said = command(
        "replay-quarantine", "--output", output, "--event-time-regex", r"^\d{2}$",
        "--event-time-format", "s",
    )  # fmt: skip
    assert "120 records out of quarantine, 10 still in it" in said
    assert proved(output).quarantined == 10
    assert not (output / one.path).exists()
    said = command("replay-quarantine", "--output", output, "--event-time-fallback", "load-time")
    assert "10 records out of quarantine, 0 still in it" in said
    assert command("replay-quarantine", "--output", output) == "the quarantine is empty\n"
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert (proved(output).rows, proved(output).quarantined) == (140, 0)


def test_a_replay_stopped_at_every_step_counts_once(run, output, cluster):
    from spark_loader.replay import replay
    from spark_loader.sink import SinkOptions

    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    options = SinkOptions(event_time=EventTime.regex(r"^\d$", "s"))
    at = 0
    while True:
        stopping = CrashingFileSystem(LOCAL, at)
        try:
            replay(Checkpoints(stopping, str(output)), stopping, options)
        except Crash:
            at += 1
        else:
            break
        run()
        proved(output)
    assert at > 15
    assert proved(output).quarantined == 120


def test_too_many_unparsable_records_fail_the_load_with_a_sample(run, output):
    with pytest.raises(QuarantineLimit, match=r"more than 20 records .* does not match"):
        run(event_time=EventTime.regex(r"^[5-9]$", "s"), max_quarantined=20)
    assert list(output.glob("topic=*")) == []
    assert run(max_quarantined=20).rows == 140


@pytest.mark.parametrize("fallback", ["quarantine", "timestamp", "load-time"])
@pytest.mark.parametrize("event_time", [EventTime(), EventTime.regex("^(9)$", "s")])
def test_a_time_that_no_calendar_holds_stops_nothing(cluster, run, output, fallback, event_time):
    for unit in (1, 1000, 1_000_000):
        cluster.append("odd", 0, [b"v"], timestamp_ms=AT * unit)
    result = run(topics=["odd"], fallback=fallback, event_time=event_time)
    loaded = 3 if fallback == "load-time" else 1
    if fallback == "quarantine" and event_time.pattern:
        loaded = 0
    assert (result.rows, result.quarantined) == (loaded, 3 - loaded)
    proved(output)


def test_message_format_0_has_no_time_unless_another_is_allowed(cluster, tmp_path):
    cluster.append("old", 0, [b"x"] * 3, magic=0)
    for fallback, expected in (("quarantine", (0, 3)), ("load-time", (3, 0))):
        result = Loader(
            bootstrap="h:1",
            topics=["old"],
            output=str(tmp_path / fallback),
            fallback=fallback,
            access=cluster,
            filesystem=LOCAL,
        ).run(InlineSpark())
        assert (result.rows, result.quarantined) == expected


def test_retention_fails_the_load_with_the_exact_range_or_fills_the_ledger(
    run, cluster, output, command
):
    run()
    cluster.append("t", 0, [b"x"] * 100)
    cluster.delete_before("t", 0, 150)
    with pytest.raises(DataLoss, match=r"t-0 \[100, 150\)"):
        run()
    assert "50 offsets were deleted before they were loaded" in command(
        "status", "--output", output, "--bootstrap", "h:1"
    )
    result = run(policies={"t:0": "earliest"})
    assert result.rows == 50
    [gap] = operate.gap_ledger(Checkpoints(LOCAL, str(output)))
    assert (gap.partition, gap.start, gap.until) == (0, 100, 150)
    assert "gap t-0 [100, 150): deleted" in command("status", "--output", output)
    assert proved(output).gap_offsets == 50
    assert [each.difference for each in operate.audit(Checkpoints(LOCAL, str(output)))] == [0] * 3


def test_retention_between_plan_and_read_is_met_by_the_policy_too(run, cluster, output):
    steps = CrashingFileSystem(LOCAL, 1)
    with pytest.raises(Crash):
        run(steps)
    cluster.delete_before("t", 0, 60)
    with pytest.raises(DataLoss, match=r"t-0 \[0, 60\)[^$]*All else was loaded: 40 rows, run 1"):
        run()
    assert proved(output).rows == 40
    result = run(on_out_of_range="earliest")
    assert (result.resumed, result.rows) == (False, 40)
    assert proved(output).gap_offsets == 60
    assert loaded_offsets(output) == {("t", 0): [*range(60, 100)], ("t", 1): [*range(40)]}


def test_retention_before_the_plan_holds_up_no_other_partition(run, cluster, output, command):
    run()
    cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
    cluster.append("t", 1, [b"x"] * 10, timestamp_ms=AT)
    cluster.delete_before("t", 0, 105)
    said = command("plan", "--output", output, "--bootstrap", "h:1", "--topic", "t")
    assert "would be held back: t-0 [100, 105)" in said
    for rows in (10, 0):
        with pytest.raises(DataLoss, match=r"t-0 \[100, 105\)") as failed:
            run()
        assert (f"All else was loaded: {rows} rows" in str(failed.value)) == (rows > 0)
    assert proved(output).rows == 150
    assert run(on_out_of_range="nearest").rows == 5
    assert proved(output).gap_offsets == 5


def test_a_topic_deleted_under_an_unfinished_plan_holds_up_nothing(run, cluster, output):
    cluster.append("gone", 0, [b"x"] * 3)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 1), topics=["t", "gone"])
    shutil.rmtree(cluster._file("gone", 0).parent)
    with pytest.raises(DataLoss, match=r"gone-0 \[0, 3\)"):
        run()
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert run().rows == 0
    proved(output)


def test_of_a_split_partition_what_lies_before_the_trouble_is_published(run, cluster, output):
    for _ in range(3):
        cluster.append("t", 0, [b"y"] * 100, timestamp_ms=AT)
    damage(cluster, "t", 0, entry=1)
    size = cluster._file("t", 0).stat().st_size
    with pytest.raises(DamagedLog, match=r"t-0 \[100, 160\).*CRC"):
        run(split_bytes=-(-size // 4))
    assert loaded_offsets(output) == {("t", 0): [*range(80)], ("t", 1): [*range(40)]}
    proved(output)
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []
    result = run(keep_damaged=True)
    assert (result.rows, result.quarantined) == (220, 1)
    assert loaded_offsets(output)["t", 0] == [*range(100), *range(200, 400)]
    proved(output)


def test_a_topic_made_anew_fails_whatever_the_policy(run, cluster):
    run()
    cluster._file("t", 0).write_bytes(b"")
    cluster.append("t", 0, [b"new"])
    with pytest.raises(DataLoss, match="made anew"):
        run(on_out_of_range="earliest")


def test_damaged_entries_go_into_quarantine_when_asked(run, cluster, output):
    file = cluster._file("t", 1)
    data = bytearray(file.read_bytes())
    data[-2] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.raises(DamagedLog, match=r"t-1 \[0, 40\).*CRC[^$]*All else was loaded: 100 rows"):
        run()
    assert loaded_offsets(output) == {("t", 0): [*range(100)]}
    proved(output)
    result = run(keep_damaged=True)
    assert (result.rows, result.quarantined) == (0, 1)
    proved(output)


def test_going_back_withdraws_files_and_loads_them_again(run, cluster, output, command):
    run()
    cluster.append("t", 0, [b"y"] * 50, timestamp_ms=AT)
    run()
    said = command("rewind", "--output", output, "--topic", "t", "--partition", 0, "--to", 120)
    assert said == "t-0: the next load begins at offset 100\n"
    assert loaded_offsets(output)["t", 0] == [*range(100)]
    proved(output)
    assert command("diff", "--output", output, "--from-run", 2) == "t-0: 100 here, 150 there\n"
    assert run().rows == 50
    assert command("rewind", "--output", output, "--topic", "t", "--to", 0).count("\n") == 3
    assert run().rows == 190
    proved(output)
    with pytest.raises(LoadError, match="not loaded"):
        command("rewind", "--output", output, "--topic", "t", "--to", 10_000)


def test_a_position_set_forward_enters_the_gap_ledger(run, cluster, output, command):
    run()
    cluster.append("t", 1, [b"skipped"] * 10 + [b"kept"] * 5, timestamp_ms=AT)
    command("set", "--output", output, "--topic", "t", "--partition", 1, "--to", 50)
    assert run().rows == 5
    assert proved(output).gap_offsets == 10
    command("set", "--output", output, "--topic", "t", "--partition", 1, "--to", 45)
    assert run().rows == 10
    assert proved(output).gap_offsets == 5


def test_positions_are_not_moved_under_an_unfinished_run(run, output, command):
    run()
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 3), topics=["t"], output=str(output) + "-2")
    with pytest.raises(LoadError, match="unfinished"):
        command("set", "--output", f"{output}-2", "--topic", "t", "--partition", 0, "--to", 1)


def test_two_loads_at_once_are_refused(run, output):
    checkpoints = Checkpoints(LOCAL, str(output))
    with LOCAL.lock(checkpoints.path("lock"), "me"), pytest.raises(LoadError, match="me"):
        run()


def test_the_dry_run_shows_splits_and_bytes_and_writes_nothing(run, output, command):
    shown = json.loads(
        command("plan", "--output", output, "--bootstrap", "h:1", "--topic", "t", "--json")
    )
    assert [(m[0]["partition"], m[0]["until"]) for m in shown["mappers"]] == [(0, 100), (1, 40)]
    assert all(m[0]["bytes"] > 0 for m in shown["mappers"])
    assert not output.exists()
    with pytest.raises(ConfigError, match="name the cluster"):
        command("plan", "--output", output, "--topic", "t")


def test_status_and_audit_balance_with_the_cluster(run, cluster, output, command):
    run(group="g")
    cluster.append("t", 0, [b"z"] * 4)
    shown = json.loads(command("status", "--output", output, "--bootstrap", "h:1", "--json"))
    assert [(e["position"], e["lag"], e["group"]) for e in shown["partitions"]] == [
        (100, 4, 100),
        (40, 0, 40),
        (0, 0, 0),
    ]
    books = json.loads(command("audit", "--output", output, "--bootstrap", "h:1", "--json"))
    assert [(e["appended"], e["rows"], e["pending"], e["difference"]) for e in books] == [
        (104, 100, 4, 0),
        (40, 40, 0, 0),
        (0, 0, 0, 0),
    ]
    assert command("diff", "--output", output, "--group", "g", "--bootstrap", "h:1") == (
        "no difference\n"
    )


@pytest.mark.parametrize("harm", ["change", "shorten", "remove", "add", "repeat"])
def test_verify_notices_every_harm(run, output, harm, command):
    run()
    assert "no gap, no duplicate" in command("verify", "--output", output)
    file = min(output.glob("topic=t/*/*/*.parquet"))
    content = file.read_bytes()
    if harm == "change":
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "shorten":
        file.write_bytes(content[:-1])
    elif harm == "remove":
        file.unlink()
    elif harm == "add":
        (file.parent / "stranger.parquet").write_bytes(content)
    else:
        manifest = next(output.glob("_zkbroker/manifests/*.json"))
        found = json.loads(manifest.read_text())
        twin = {**found["files"][0], "path": found["files"][0]["path"] + "x.parquet"}
        (output / twin["path"]).write_bytes((output / found["files"][0]["path"]).read_bytes())
        found["files"].append(twin)
        manifest.write_text(json.dumps(found))
    with pytest.raises(LoadError, match="problem"):
        command("verify", "--output", output)


def test_checkpoints_of_another_version_are_refused(run, output):
    run()
    manifest = next(output.glob("_zkbroker/manifests/*.json"))
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(LoadError, match="version 2"):
        run()


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost", "file:///"])
def test_an_output_may_be_a_file_uri(run, output, prefix, command):
    where = f"{prefix}{str(output)[1:] if prefix == 'file:///' else output}"
    assert run(output=where).rows == 140
    assert loaded_offsets(output)["t", 1] == [*range(40)]
    assert "no gap, no duplicate" in command("verify", "--output", where)


def test_a_relative_output_is_one_place_for_driver_and_workers(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(output="lake")
    assert all(path.startswith(f"{tmp_path}/lake/topic=t/") for path in result.files)


@pytest.mark.parametrize(
    "words", [["verify"], ["status"], ["audit"], ["diff", "--from-run", 1], ["rewind", "--to", 1]]
)
def test_a_misspelt_directory_is_no_proof(tmp_path, command, words):
    more = ["--topic", "t"] if words[0] == "rewind" else []
    with pytest.raises(LoadError, match=r"nothing .*loaded"):
        command(*words, "--output", tmp_path / "lkae", *more)
    assert not (tmp_path / "lkae" / "_zkbroker" / "manifests").exists()


def test_the_state_of_topics_that_are_gone_or_have_grown_can_be_seen(run, cluster, output, command):
    cluster.append("gone", 0, [b"x"] * 5, timestamp_ms=AT)
    run(topics=["t", "gone"], group="g")
    shutil.rmtree(cluster._file("gone", 0).parent)
    cluster.append("t", 3, [b"x"] * 7, timestamp_ms=AT)
    where = ["--output", output, "--bootstrap", "h:1"]
    shown = json.loads(command("status", *where, "--json"))["partitions"]
    assert [(e["topic"], e["partition"], e["position"], e["lag"], e["gone"]) for e in shown] == [
        ("gone", 0, 5, None, True),
        ("t", 0, 100, 0, False),
        ("t", 1, 40, 0, False),
        ("t", 2, 0, 0, False),
        ("t", 3, None, 7, False),
    ]
    said = command("status", *where)
    assert "gone-0 is no longer in the cluster" in said
    assert "t-3 is new" in said
    assert {e["difference"] for e in json.loads(command("audit", *where, "--json"))} == {0}


def test_what_the_disk_says_is_an_error_of_one_line(run, output):
    run()
    with pytest.raises(LoadError, match=r"Permission denied|Not a directory"):
        cli.main(["verify", "--output", str(output / "_zkbroker/manifests/000001.json")],
                 standalone_mode=False)  # fmt: skip


def test_a_registry_that_is_away_at_the_end_costs_the_groups_offsets_only(
    run, cluster, output, monkeypatch
):
    def away(*_):
        raise RegistryError("no ZooKeeper answered")

    monkeypatch.setattr(DirectoryView, "commit_group_offsets", away)
    with pytest.raises(LoadError, match=r"run 1 is published with 140 rows.*no ZooKeeper answered"):
        run(group="g")
    proved(output)
    monkeypatch.undo()
    assert run(group="g").rows == 0
    assert cluster.view(None).group_offsets("g", []) == {("t", 0): 100, ("t", 1): 40, ("t", 2): 0}


@pytest.mark.parametrize("kind", ["parquet", "json", "raw"])
def test_events_of_many_hours_make_one_file_an_hour(tmp_path, cluster, kind):
    """Out of order over more hours than files may be open, in buffers that hold little."""
    hours, rows = 40, 4000
    values = [b'{"at": %d, "n": "%s"}' % (n * 7 % hours * 3600, b"x" * 50) for n in range(rows)]
    cluster.append("late", 0, values)
    sink = PartitionSink(
        LOCAL, str(tmp_path), TopicPartition("late", 0), "staging", "token",
        SinkOptions(
            format=kind, event_time=EventTime.json("at"), open_files=4, buffer_bytes=20_000
        ),
    )  # fmt: skip
    reader = RangeReader(cluster.fetcher(None), fetch_bytes=4096)
    for piece in reader.read(OffsetRange("late", 0, 0, rows)):
        sink.write(piece)
        assert len(sink._open) <= 4
    sink.finish()
    assert len(sink.files) == hours
    assert sum(each.rows for each in sink.files) == rows
    held = []
    for each in sink.files:
        local = tmp_path / each.staged
        assert sha256_of(local) == each.sha256
        if kind == "parquet":
            offsets = pq.ParquetFile(local).read(["offset"]).column("offset").to_pylist()
        elif kind == "json":
            offsets = [json.loads(line)["offset"] for line in local.read_text().splitlines()]
        else:
            offsets = [o for start, until in each.offsets for o in range(start, until)]
            lines = local.read_bytes().splitlines()
            assert lines == [values[offset] for offset in offsets]
        assert offsets == sorted(offsets)
        assert (offsets[0], offsets[-1] + 1) == (each.start, each.until)
        held.extend(offsets)
    assert sorted(held) == [*range(rows)]
    sink.discard()
    assert not any((tmp_path / "staging").iterdir())


def test_a_topic_made_anew_is_noticed_however_long_it_is(run, cluster, output, command):
    created = Path(cluster.path) / "created.json"
    created.write_text('{"t": 1431857103000}')
    run()
    assert run().rows == 0
    created.write_text('{"t": 1431943503000}')
    cluster.append("t", 0, [b"new"] * 50, timestamp_ms=AT)
    cluster.append("t", 2, [b"new"] * 5, timestamp_ms=AT)
    for loaded in (5, 0):
        with pytest.raises(DataLoss, match="t-0: the topic was made anew") as failed:
            run(on_out_of_range="earliest")
        assert (f"{loaded} rows" in str(failed.value)) == (loaded > 0)
    command("set", "--output", output, "--topic", "t", "--partition", 0, "--to", 100)
    assert run().rows == 50
    assert run().rows == 0
    proved(output)
    created.write_text('{"t": 1432000000000}')
    command("rewind", "--output", output, "--topic", "t", "--to", 0)
    assert [run().rows for _ in range(2)] == [195, 0]
    proved(output)


def test_checkpoints_of_an_earlier_release_are_taken_up(run, cluster, output):
    """Those had no times of creation; nor does a plan that was being carried out then."""
    run()
    cluster.append("t", 1, [b"x"] * 5, timestamp_ms=AT)
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 3))
    for path in output.glob("_zkbroker/**/*.json"):
        content = json.loads(path.read_text())
        content.pop("topics_created_ms", None)
        path.write_text(json.dumps(content))
    result = run()
    assert (result.resumed, result.rows) == (True, 5)
    proved(output)
