"""Conversion of a lake of a release with manifests; that release loaded `manifests.tar.gz`.

Two partitions over three hours; runs 1 and 2, a rewind (3), its reload (4), a position set forward
(5), a load (6), and run 7 stopped while it gave its files their names.
"""

import json
import tarfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_loader import EventTime, LoadError
from spark_loader.errors import CheckpointError, DamagedLake
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.convert import convert
from spark_loader.lake.optimize import optimize
from tests.support.inline_spark import crashes
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, verified

BY_VALUE = EventTime.json("at")
WITHOUT_POISON = [*range(30), *range(31, 41)]


@pytest.fixture
def old_lake(output):
    with tarfile.open(Path(__file__).with_name("manifests.tar.gz")) as found:
        found.extractall(output.parent, filter="data")
    return Checkpoints(LOCAL, str(output))


@pytest.fixture
def grown_cluster(cluster, tmp_path):
    """The log that the lake was loaded from, with the records that its stopped run had planned."""

    def values(start, count):
        return [b'{"at": %d, "n": %d}' % (1_431_857_103 + 3600 * (n % 3), n)
                for n in range(start, start + count)]  # fmt: skip

    cluster.append("u", 0, [])
    for partition, found in (
        (0, [*values(0, 30), b"poison", *values(31, 10), *values(41, 9)]),
        (1, [*values(0, 20), *values(20, 10)]),
    ):
        Path(cluster._file("t", partition)).unlink(missing_ok=True)
        cluster.append("t", partition, found)
    return cluster


def test_lake_with_manifests_requires_convert(old_lake, output, run, command):
    with pytest.raises(DamagedLake, match="zkbroker-load convert --output"):
        run(event_time=BY_VALUE)
    for name in ("status", "verify", "files", "optimize"):
        with pytest.raises(DamagedLake, match="zkbroker-load convert --output"):
            command(name, output)


def test_convert_takes_over_runs_without_touching_data_files(old_lake, output, command):
    before = {path: path.stat().st_mtime_ns for path in output.rglob("topic=*/*/*/*.parquet")}
    assert command("convert", output) == "6 runs with 12 files taken over\n"
    report = verified(output)
    assert (report.rows, report.quarantined, report.gap_offsets, report.files) == (65, 1, 5, 12)
    assert report.unsealed == 0
    assert loaded_offsets(output) == {
        ("t", 0): WITHOUT_POISON,
        ("t", 1): [*range(20), *range(25, 30)],
    }
    after = {path: path.stat().st_mtime_ns for path in output.rglob("topic=*/*/*/*.parquet")}
    assert after.items() <= before.items()
    assert [each.run for each in old_lake.table.entries()] == [1, 2, 3, 4, 5, 6]
    assert command("convert", output) == "every manifest is in the table already\n"
    books = json.loads(command("audit", output, "--json"))
    assert {each["difference"] for each in books} == {0}
    assert len(old_lake.table.files(old_lake.table.version_of(1))) == 6


def test_stopped_conversion_can_be_repeated(old_lake, output):
    for _ in crashes(lambda files: convert(Checkpoints(files, str(output))), LOCAL, least=6):
        pass
    assert verified(output).rows == 65


def test_unfinished_run_resumes_after_conversion(old_lake, output, run, grown_cluster):
    planned = old_lake.plan(7).ranges
    convert(old_lake)
    result = run(event_time=BY_VALUE)
    assert (result.run, result.resumed, result.adopted, result.rows) == (7, True, 0, 9)
    assert [(each.start, each.until) for each in result.ranges] == [
        (each.start, each.until) for each in planned
    ]
    assert run(event_time=BY_VALUE).rows == 0
    optimize(old_lake)
    assert DeltaTable(str(output)).to_pyarrow_table().num_rows == 74 == verified(output).rows
    assert len(DeltaTable(str(output)).file_uris()) == 3


def test_damaged_manifest_or_missing_file_is_refused(old_lake, output, command):
    manifest = output / "_zkbroker/manifests/000006.json"
    whole = manifest.read_text()
    manifest.write_text(whole.replace('"rows": 5', '"rows": 6'))
    with pytest.raises(CheckpointError, match=r"000006\.json cannot be read"):
        command("convert", output)
    manifest.write_text(whole)
    next(output.glob("topic=t/*/*/t+00000+*000+*28+*.parquet")).unlink()
    with pytest.raises(LoadError, match="is missing or its length has changed"):
        command("convert", output)


def test_lake_without_manifests_is_refused(run, output, command):
    run()
    with pytest.raises(LoadError, match="nothing to convert"):
        command("convert", output)
