"""A load first checks its directory, and refuses one that changed since the last load."""

import shutil

import pytest

from spark_loader.errors import DamagedLake, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import find_damage
from spark_loader.lake.operate import rewind
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.event_time import EventTime
from tests.support.inline_spark import crashes
from tests.support.loaded import file_with, loaded_offsets
from tests.support.loading import LOCAL, verified


def refused(run, output, *texts, **options):
    before = names(output)
    with pytest.raises(DamagedLake) as found:
        run(**options)
    for text in (str(output), "nothing was loaded", "--adopt", *texts):
        assert text in str(found.value)
    assert names(output) == before


def names(output):
    return sorted(path for path in output.rglob("*.*") if "lock" not in path.name)


def load_often(run, cluster, count=3):
    for _ in range(count):
        run()
        cluster.append("t", 0, [b"x"] * 10)


def test_lake_without_table_is_refused(run, cluster, output, command):
    load_often(run, cluster)
    shutil.rmtree(output / "_delta_log")
    shutil.rmtree(output / "_zkbroker")
    refused(run, output, "part-", "is named by no table", "a second time")
    for name in ("status", "audit", "verify", "optimize", "vacuum", "files"):
        with pytest.raises(DamagedLake, match="named by no table"):
            command(name, "--output", output)
    with pytest.raises(DamagedLake, match="named by no table"):
        command("plan", output, "-b", "h:1", "-t", "t")


@pytest.mark.parametrize("damage", ["remove", "shorten", "lengthen"])
def test_missing_or_resized_data_file_is_refused(run, cluster, output, damage):
    load_often(run, cluster)
    file = file_with(output, 0, 0)
    if damage == "remove":
        file.unlink()
        message = f"{file.name} (100 rows) is missing"
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-1] if damage == "shorten" else content + b"x")
        message = "were published"
    rewind = f"zkbroker-load rewind --output {output} --topic t --partition 0 --to 0"
    refused(run, output, message, rewind)


@pytest.mark.parametrize("group_bytes", [0, 1 << 20])
def test_suggested_rewind_reloads_lost_file(run, cluster, output, command, group_bytes):
    load_often(run, cluster)
    cluster.append("t", 1, [b"x"] * 10)
    run(group_bytes=group_bytes)
    lost = file_with(output, 0, 125)
    lost.unlink()
    with pytest.raises(DamagedLake) as found:
        run()
    for line in str(found.value).splitlines():
        if "zkbroker-load rewind" in line:
            command(*line.split()[1:])
    run()
    assert loaded_offsets(output) == {("t", 0): [*range(130)], ("t", 1): [*range(50)]}
    verified(output)


def test_crashed_rewind_over_lost_files_is_completed_by_next_load(run, cluster, output, tmp_path):
    load_often(run, cluster)
    file_with(output, 0, 105).unlink()
    copy = tmp_path / "copy"

    def rewind_copy(filesystem):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(output, copy)
        rewind(Checkpoints(filesystem, str(copy)), [TopicPartition("t", 0)], 100)

    for _ in crashes(rewind_copy, LOCAL, least=2):
        if find_damage(Checkpoints(LOCAL, str(copy))):
            continue
        run(output=str(copy))
        assert loaded_offsets(copy) == {("t", 0): [*range(130)], ("t", 1): [*range(40)]}
        verified(copy)


def test_missing_commit_is_refused(run, cluster, output, command):
    load_often(run, cluster)
    (output / f"_delta_log/{2:020d}.json").unlink()
    refused(run, output, "_delta_log")
    with pytest.raises(LoadError):
        command("verify", output)


def test_run_with_missing_last_commit_is_resumed(run, cluster, output):
    load_often(run, cluster)
    (output / f"_delta_log/{3:020d}.json").unlink()
    assert run().resumed
    assert run().rows == 10
    verified(output)


def test_unreferenced_json_data_file_is_refused(run, cluster, output):
    run(format="json")
    for name in ("_SUCCESS", "notes.txt", ".t.parquet.crc"):
        (output / "topic=t" / name).write_text("by hand")
    cluster.append("t", 1, [b"x"])
    run(format="json")
    file = min(output.glob("topic=t/*/*/*.jsonl"))
    file.with_name(file.name.replace(".jsonl", "x.jsonl")).write_bytes(file.read_bytes())
    refused(run, output, "is named by no commit")


def test_missing_quarantine_file_is_refused(run, cluster, output):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    next(output.glob("_zkbroker/quarantine/*/*.jsonl")).unlink()
    refused(run, output, "is missing", "rewind")


def test_set_does_not_hide_damage(run, cluster, output, command):
    load_often(run, cluster)
    file_with(output, 0, 0).unlink()
    cluster.append("t", 1, [b"x"] * 10)
    command("set", output, "-t", "t", "--partition", 1, "--to", 45)
    refused(run, output, "(100 rows) is missing")


def test_crashed_load_is_not_reported_as_damage(run, cluster, output, lake):
    run()

    def load(filesystem):
        cluster.append("t", 0, [b"x"] * 10)
        run(filesystem)

    for _ in crashes(load, LOCAL, least=6):
        assert not find_damage(lake)
        run()
    verified(output)
