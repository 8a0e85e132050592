"""Loads, formats, quarantine and the operator's commands, on an in-process stand-in for Spark."""

import json

import pytest

from spark_loader import EventTime, Loader, LoadError, QuarantineLimit
from spark_loader.checkpoint import Checkpoints
from spark_loader.ledger import live
from spark_loader.positions import LATEST_BOUND, AtOffsets, AtTime, TopicPartition
from spark_loader.sink import SinkOptions
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loaded import loaded_offsets
from tests.support.loading import AT, LOCAL, proved
from zkbroker.errors import ConfigError


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
