"""A load looks its directory over first, and refuses one that is not as the last load left it."""

import json
import shutil

import pytest

from spark_loader.errors import DamagedLake, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import find_damage, require_whole
from spark_loader.sink.event_time import EventTime
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_offsets
from tests.support.loading import AT, LOCAL, proved


class Reads:
    """A local file system that counts the files it reads."""

    def __init__(self):
        self.read_paths = []

    def __getattr__(self, name):
        return getattr(LOCAL, name)

    def read(self, path):
        self.read_paths.append(path)
        return LOCAL.read(path)


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


def test_a_lake_without_its_checkpoints_is_refused(run, cluster, output, command):
    loads(run, cluster)
    shutil.rmtree(output / "_zkbroker")
    refused(run, output, "t+00000+", "is named by no manifest", "a second time")
    for name in ("status", "audit", "verify"):
        with pytest.raises(DamagedLake, match="named by no manifest"):
            command(name, "--output", output)
    with pytest.raises(DamagedLake, match="named by no manifest"):
        command("plan", "--output", output, "--bootstrap", "h:1", "--topic", "t")


@pytest.mark.parametrize("harm", ["remove", "shorten", "lengthen"])
def test_a_data_file_that_is_gone_or_of_another_length_is_named(run, cluster, output, harm):
    loads(run, cluster)
    [file] = output.glob("topic=t/*/*/t+00000+*0000+*100+*.parquet")
    if harm == "remove":
        file.unlink()
        said = f"{file.name} (offsets [0, 100)) is missing"
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-1] if harm == "shorten" else content + b"x")
        said = "were published"
    rewind = f"zkbroker-load rewind --output {output} --topic t --partition 0 --to 0"
    refused(run, output, said, rewind)


def test_the_rewind_that_is_named_loads_what_was_lost_again(run, cluster, output, command):
    loads(run, cluster)
    [file] = output.glob("topic=t/*/*/t+00000+*100+*110+*.parquet")
    file.unlink()
    refused(run, output, "--partition 0 --to 100")
    command("rewind", "--output", output, "--topic", "t", "--partition", 0, "--to", 100)
    assert run().rows == 30
    assert loaded_offsets(output) == {("t", 0): [*range(130)], ("t", 1): [*range(40)]}
    proved(output)


@pytest.mark.parametrize("number", [1, 2])
def test_an_earlier_manifest_that_is_gone_is_noticed(run, cluster, output, number, command):
    loads(run, cluster)
    (output / f"_zkbroker/manifests/00000{number}.json").unlink()
    refused(run, output, f"the manifest of run {number} is missing")
    with pytest.raises(LoadError, match="problem"):
        command("verify", "--output", output)


def test_an_earlier_manifest_without_its_plan_is_missed_too(run, cluster, output):
    loads(run, cluster)
    (output / "_zkbroker/manifests/000001.json").unlink()
    shutil.rmtree(output / "_zkbroker/runs/000001")
    refused(run, output, "1 of the 2 manifests before run 3 is missing")


def test_a_manifest_that_was_altered_is_named(run, cluster, output, command):
    loads(run, cluster)
    for number in (1, 3):
        manifest = output / f"_zkbroker/manifests/00000{number}.json"
        whole = manifest.read_text()
        manifest.write_text(whole.replace('"rows": 1', '"rows": 21'))
        refused(run, output, f"00000{number}.json is not as it was written")
        with pytest.raises(LoadError, match="problem"):
            command("verify", "--output", output)
        manifest.write_text("{")
        refused(run, output, f"00000{number}.json is not as it was written")
        manifest.write_text(whole)
    # As long as before: only its checksum tells, which `verify` looks at.
    manifest = output / "_zkbroker/manifests/000001.json"
    manifest.write_text(manifest.read_text().replace('"kind": "load"', '"kind": "lOad"'))
    run()
    with pytest.raises(LoadError, match="problem"):
        command("verify", "--output", output)


def test_the_two_last_manifests_gone_are_not_taken_for_one_unfinished_run(run, cluster, output):
    loads(run, cluster)
    for number in (2, 3):
        (output / f"_zkbroker/manifests/00000{number}.json").unlink()
    refused(run, output, "the manifest of run 2 is missing")


def test_the_last_manifest_gone_is_a_run_to_be_finished(run, cluster, output):
    loads(run, cluster)
    (output / "_zkbroker/manifests/000003.json").unlink()
    assert run().resumed
    assert run().rows == 10
    proved(output)


def test_files_of_no_manifest_are_refused_when_they_look_like_ours(run, cluster, output):
    loads(run, cluster)
    for name in ("_SUCCESS", "notes.txt", ".t.parquet.crc"):
        (output / "topic=t" / name).write_text("by hand")
    cluster.append("t", 1, [b"x"], timestamp_ms=AT)
    run()
    for number in (3, 4):
        (output / f"_zkbroker/manifests/00000{number}.json").unlink()
        shutil.rmtree(output / f"_zkbroker/runs/00000{number}")
    refused(run, output, "is named by no manifest")


def test_a_quarantine_file_counts_as_well(run, cluster, output):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    next(output.glob("_zkbroker/quarantine/*/*.jsonl")).unlink()
    refused(run, output, "is missing", "rewind")


def test_looking_a_whole_lake_over_reads_one_manifest(run, cluster, output):
    loads(run, cluster, 8)
    counting = Reads()
    require_whole(Checkpoints(counting, str(output)), counting)
    assert {path.rpartition("/")[2] for path in counting.read_paths} == {"000008.json"}


def test_operators_do_not_write_damage_into_the_account(run, cluster, output, command):
    loads(run, cluster)
    [file] = output.glob("topic=t/*/*/t+00000+*0000+*100+*.parquet")
    file.unlink()
    (output / "_zkbroker/manifests/000001.json").unlink()
    cluster.append("t", 1, [b"x"] * 10, timestamp_ms=AT)
    command("set", "--output", output, "--topic", "t", "--partition", 1, "--to", 45)
    refused(run, output, "the manifest of run 1 is missing")


def test_a_lake_of_an_older_release_is_looked_over_and_gets_its_account(run, cluster, output):
    loads(run, cluster)
    for path in output.glob("_zkbroker/manifests/*.json"):
        content = json.loads(path.read_text())
        for name in ("beginning", "lake", "earlier", "checksum"):
            del content[name]
        path.write_text(json.dumps(content))
    [file] = output.glob("topic=t/*/*/t+00000+*100+*110+*.parquet")
    aside = file.rename(output / "aside")
    refused(run, output, "is missing")
    aside.rename(file)
    run()
    written = json.loads((output / "_zkbroker/manifests/000004.json").read_text())
    assert (written["lake"]["files"], written["earlier"]["files"]) == (5, 3)
    (output / "_zkbroker/manifests/000001.json").unlink()
    shutil.rmtree(output / "_zkbroker/runs")
    refused(run, output, "1 of the 3 manifests")


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
        assert not find_damage(checkpoints, LOCAL)
        run()
    assert at > 10
    proved(output)
