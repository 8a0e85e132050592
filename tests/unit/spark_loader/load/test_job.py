"""Loads with their options, formats and quarantine, with mappers in this process."""

import json
import sys

import pytest

from spark_loader import EventTime, LoadError, QuarantineLimit
from spark_loader.reading.positions import LATEST_BOUND, AtOffsets, AtTime, TopicPartition
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_offsets
from tests.support.loading import AT, LOCAL, verified
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ConfigError


def test_first_run_begins_at_starting_option(run, cluster, tmp_path):
    begun = {}
    for name, starting in (
        ("latest", LATEST_BOUND),
        ("offsets", AtOffsets({TopicPartition("t", p): p * 10 for p in range(3)})),
        ("time", AtTime(AT)),
    ):
        lake = tmp_path / name
        if name == "offsets":
            cluster.append("t", 2, [b"x"] * 30)
        begun[name] = [run(output=str(lake), starting=starting).rows]
        cluster.append("t", 1, [b"x"] * 5)
        begun[name].append(run(output=str(lake), starting=starting).rows)
        verified(lake)
    assert begun == {"latest": [0, 5], "offsets": [145, 5], "time": [180, 5]}


def test_added_partition_loads_from_beginning(run, cluster):
    run(starting=LATEST_BOUND)
    cluster.append("t", 3, [b"new"] * 7)
    assert run(starting=LATEST_BOUND).rows == 7


def test_whitelist_and_blacklist_select_topics(run, cluster, output):
    cluster.append("u", 0, [b"x"] * 3)
    cluster.append("v", 0, [b"x"] * 3)
    result = run(topics=[], whitelist="t|u|v", blacklist="v")
    assert {each.topic for each in result.ranges} == {"t", "u"}
    with pytest.raises(LoadError, match="no topic matches"):
        run(topics=[], whitelist="nothing")
    with pytest.raises(ConfigError, match="whitelist"):
        run(topics=[])


def test_tls_to_cluster_of_0_7_is_refused(run):
    given = {"bootstrap": "", "zookeeper": "z", "generation": "0.7"}
    with pytest.raises(ConfigError, match=r"protocol=SSL is not for Kafka 0\.7"):
        run(security=ClientSecurity(protocol="SSL"), **given)


def test_max_records_bytes_and_seconds_limit_run(run, output):
    assert run(max_records=30).rows == 30
    capped = run(max_bytes=500)
    assert 0 < capped.rows < 110
    assert capped.lag == 110 - capped.rows
    assert run(max_seconds=60).lag == 0
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    verified(output)


def test_resumed_run_may_be_larger_than_the_limit(run, output):
    crashing = CrashingFileSystem(LOCAL, "before commit of the table")
    with pytest.raises(Crash):
        run(crashing, max_records=30)
    assert run(max_records=10, max_seconds=60).rows == 30
    verified(output)


def test_large_partitions_are_split(run, lake, output):
    result = run(split_bytes=300)
    assert len(lake.plan(1).mappers) > 3
    assert [(each.partition, each.start, each.until) for each in result.ranges] == [
        (0, 0, 100),
        (1, 0, 40),
    ]
    verified(output)


def test_small_partitions_share_mapper(run, lake, output):
    run(group_bytes=1 << 20)
    assert len(lake.plan(1).mappers) == 1
    verified(output)


def test_files_are_closed_at_target_size(run, cluster, output):
    cluster.append("t", 2, [b"x" * 1000] * 300, per_batch=10)
    run(target_bytes=20_000, fetch_bytes=30_000, compression="none", format="raw")
    names = [path.name for path in output.glob("topic=t/*/*/t+00002+*")]
    assert len(names) > 3
    verified(output)


@pytest.mark.parametrize("kind", ["json", "raw"])
def test_json_and_raw_files_hold_loaded_values(run, output, kind, cluster):
    cluster.append("t", 2, [b"\xff", None], keys=[b"k", None])
    assert run(format=kind).rows == 142
    report = verified(output)
    assert report.rows == 142
    [file] = output.glob("topic=t/date=2015-05-17/hour=10/t+00002+*")
    lines = file.read_bytes().split(b"\n")[:-1]
    if kind == "raw":
        assert lines == [b"\xff", b""]
    else:
        first, second = map(json.loads, lines)
        assert (first["key"], first["value_base64"], first["offset"]) == ("k", "/w==", 0)
        assert (second["key"], second["value"], second["timestamp"]) == (None, None, AT)


def test_headers_are_loaded_when_requested(run, cluster, output):
    cluster.append("t", 2, [b"v"], headers=[(("h", b"1"),)])
    run(format="json", headers=True)
    [file] = output.glob("topic=t/*/*/t+00002+*")
    assert json.loads(file.read_text())["headers"] == [{"key": "h", "value": "1"}]


def test_too_many_records_without_event_time_fail_load(run, output):
    with pytest.raises(QuarantineLimit, match=r"more than 20 records .* does not match"):
        run(event_time=EventTime.regex(r"^[5-9]$", "s"), max_quarantined=20)
    assert list(output.glob("topic=*")) == []
    assert run(max_quarantined=20).rows == 140


def test_message_format_0_needs_fallback_time(run, cluster, tmp_path):
    cluster.append("old", 0, [b"x"] * 3, magic=0)
    for fallback, expected in (("quarantine", (0, 3)), ("load-time", (3, 0))):
        result = run(topics=["old"], output=str(tmp_path / fallback), fallback=fallback)
        assert (result.rows, result.quarantined) == expected


def test_plan_shows_splits_and_writes_nothing(run, output, command):
    shown = json.loads(command("plan", output, "-b", "h:1", "-t", "t", "--json"))
    # Small ones share a mapper.
    [mapper] = shown["mappers"]
    assert [(each["partition"], each["until"]) for each in mapper] == [(0, 100), (1, 40)]
    assert all(each["bytes"] > 0 for each in mapper)
    assert not output.exists()
    with pytest.raises(ConfigError, match="no cluster is named"):
        command("plan", output, "-t", "t")


def test_missing_library_is_reported_before_loading(run, output, monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(LoadError, match=r"pip install 'zkbroker\[lake\]'"):
        run()
    assert not output.exists()
