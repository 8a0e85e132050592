"""A load looks its directory over first, and refuses one that is not as the last load left it."""

import shutil

import pytest

from spark_loader.errors import DamagedLake, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import find_damage
from spark_loader.sink.event_time import EventTime
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import file_with, loaded_offsets
from tests.support.loading import AT, LOCAL, proved


def refused(run, output, *texts, **options):
    before = names(output)
    with pytest.raises(DamagedLake) as found:
        run(**options)
    for text in (str(output), "nothing was loaded", "--adopt", *texts):
        assert text in str(found.value)
    assert names(output) == before


def names(output):
    return sorted(path for path in output.rglob("*.*") if "lock" not in path.name)


def loads(run, cluster, count=3):
    for _ in range(count):
        run()
        cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)


def test_a_lake_without_its_table_is_refused(run, cluster, output, command):
    loads(run, cluster)
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker")
    refused(run, output, "part-", "is named by no table", "a second time")
    for name in ("status", "audit", "verify", "optimize", "vacuum", "files"):
        with pytest.raises(DamagedLake, match="named by no table"):
            command(name, "--output", output)
    with pytest.raises(DamagedLake, match="named by no table"):
        command("plan", "--output", output, "--bootstrap", "h:1", "--topic", "t")


@pytest.mark.parametrize("harm", ["remove", "shorten", "lengthen"])
def test_a_data_file_that_is_gone_or_of_another_length_is_named(run, cluster, output, harm):
    loads(run, cluster)
    file = file_with(output, 0, 0)
    if harm == "remove":
        file.unlink()
        said = f"{file.name} (100 rows) is missing"
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-1] if harm == "shorten" else content + b"x")
        said = "were published"
    rewind = f"zkbroker-load rewind --output {output} --topic t --partition 0 --to 0"
    refused(run, output, said, rewind)


@pytest.mark.parametrize("group_bytes", [0, 1 << 20])
def test_the_rewind_that_is_named_loads_what_was_lost_again(
    run, cluster, output, command, group_bytes
):
    loads(run, cluster)
    cluster.append("t", 1, [b"x"] * 10, timestamp_ms=AT)
    run(group_bytes=group_bytes)
    lost = file_with(output, 0, 125)
    lost.unlink()
    with pytest.raises(DamagedLake) as found:
        run()
    for told in str(found.value).splitlines():
        if "zkbroker-load rewind" in told:
            command(*told.split()[1:])
    run()
    assert loaded_offsets(output) == {("t", 0): [*range(130)], ("t", 1): [*range(50)]}
    proved(output)


def test_a_rewind_over_lost_files_that_is_stopped_is_finished_by_the_next_load(
    run, cluster, output, tmp_path
):
    from spark_loader.lake.operate import rewind
    from spark_loader.reading.positions import TopicPartition

    loads(run, cluster)
    file_with(output, 0, 105).unlink()
    at = 0
    while True:
        copy = tmp_path / f"copy-{at}"
        shutil.copytree(output, copy)
        stopping = CrashingFileSystem(LOCAL, at)
        try:
            rewind(Checkpoints(stopping, str(copy)), [TopicPartition("t", 0)], 100)
        except Crash:
            at += 1
        else:
            break
        if find_damage(Checkpoints(LOCAL, str(copy))):
            continue
        run(output=str(copy))
        assert loaded_offsets(copy) == {("t", 0): [*range(130)], ("t", 1): [*range(40)]}
        proved(copy)
    assert at > 3


def test_a_commit_that_is_gone_is_noticed(run, cluster, output, command):
    loads(run, cluster)
    (output / f"_delta_log/{2:020d}.json").unlink()
    refused(run, output, "_delta_log")
    with pytest.raises(LoadError):
        command("verify", "--output", output)


def test_the_last_commit_gone_is_a_run_to_be_finished(run, cluster, output):
    loads(run, cluster)
    (output / f"_delta_log/{3:020d}.json").unlink()
    assert run().resumed
    assert run().rows == 10
    proved(output)


def test_json_files_that_nothing_names_are_refused_when_they_look_like_ours(run, cluster, output):
    run(format="json")
    for name in ("_SUCCESS", "notes.txt", ".t.parquet.crc"):
        (output / "topic=t" / name).write_text("by hand")
    cluster.append("t", 1, [b"x"], timestamp_ms=AT)
    run(format="json")
    file = min(output.glob("topic=t/*/*/*.jsonl"))
    file.with_name(file.name.replace(".jsonl", "x.jsonl")).write_bytes(file.read_bytes())
    refused(run, output, "is named by no commit")


def test_a_quarantine_file_counts_as_well(run, cluster, output):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    next(output.glob("_zkbroker/quarantine/*/*.jsonl")).unlink()
    refused(run, output, "is missing", "rewind")


def test_operators_do_not_write_damage_into_the_account(run, cluster, output, command):
    loads(run, cluster)
    file_with(output, 0, 0).unlink()
    cluster.append("t", 1, [b"x"] * 10, timestamp_ms=AT)
    command("set", "--output", output, "--topic", "t", "--partition", 1, "--to", 45)
    refused(run, output, "(100 rows) is missing")


def test_a_load_stopped_at_any_step_is_no_damage(run, cluster, output):
    run()
    at = 0
    while True:
        cluster.append("t", 0, [b"x"] * 10, timestamp_ms=AT)
        try:
            run(CrashingFileSystem(LOCAL, at))
        except Crash:
            at += 1
        else:
            break
        checkpoints = Checkpoints(LOCAL, str(output))
        assert not find_damage(checkpoints)
        run()
    assert at > 10
    proved(output)
