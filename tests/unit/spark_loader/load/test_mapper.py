"""A mapper counts once, whoever else works at its task."""

import shutil
from dataclasses import replace

import pytest

from spark_loader import Loader
from spark_loader.errors import DamagedLog
from spark_loader.load.mapper import run_mapper
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loaded import loaded_offsets
from tests.support.loading import AT, LOCAL, damage, proved


def test_a_mapper_whose_files_are_gone_is_done_again(run, output):
    steps = CrashingFileSystem(LOCAL)
    run(steps, output=f"{output}-whole")
    at = steps.steps.index("before commit of the table")
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, at))
    min(output.glob("topic=*/*/*/*-00000-*.parquet")).unlink()
    result = run()
    assert (result.resumed, result.adopted, result.rows) == (True, 1, 140)
    proved(output)


def test_of_two_attempts_of_a_mapper_the_first_to_publish_counts(cluster, output):
    """Both have read and written everything when the first one publishes, as in speculation."""
    copies = []

    class Twice(CrashingFileSystem):
        def publish(self, path, data):
            if path.endswith("offsets/00000.json") and not copies:
                copies.append(run_mapper(tasks[0]))
            return super().publish(path, data)

    tasks = []

    class Spark(InlineSpark):
        def parallelize(self, given, slices):
            tasks.extend(replace(task, filesystem=LOCAL) for task in given)
            return super().parallelize(given, slices)

    where = {"bootstrap": "h:1", "topics": ["t"], "output": str(output)}
    result = Loader(**where, access=cluster, filesystem=Twice(LOCAL)).run(Spark())
    assert [copy.troubles for copy in copies] == [()]
    assert result.rows == 140
    proved(output)
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []


@pytest.fixture
def tasks(cluster, output):
    """The tasks of a load, not run."""

    class Stopped(InlineSpark):
        def collect(self):
            raise Crash

    spark = Stopped()
    where = {"bootstrap": "h:1", "topics": ["t"], "output": str(output), "target_bytes": 1}
    where["group_bytes"] = 0
    loader = Loader(**where, access=cluster, filesystem=LOCAL, fetch_bytes=2000)
    cluster.append("t", 0, [b"y" * 1000] * 20, timestamp_ms=AT, per_batch=1)
    with pytest.raises(Crash):
        loader.run(spark)
    return spark._tasks


def test_a_mapper_that_is_done_reads_nothing_again(tasks, cluster):
    rows = [run_mapper(task).rows for task in tasks]
    shutil.rmtree(cluster.path)
    assert [run_mapper(task).rows for task in tasks] == rows == [120, 40]


def test_an_attempt_that_fails_leaves_no_file_behind(tasks, cluster, output):
    damage(cluster, "t", 0, entry=15)
    outcome = run_mapper(tasks[0])
    [trouble] = outcome.troubles
    assert isinstance(trouble, DamagedLog)
    assert "t-0 [114, 115)" in str(trouble)
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []
    assert list(output.rglob("*.parquet")) == []
    assert list(output.glob("_zkbroker/runs/*/offsets/*")) == []


def test_a_partition_in_trouble_is_left_out_and_the_others_of_its_mapper_are_loaded(
    run, cluster, output
):
    cluster.append("t", 0, [b"y" * 1000] * 20, timestamp_ms=AT, per_batch=1)
    damage(cluster, "t", 0, entry=15)
    with pytest.raises(DamagedLog, match=r"t-0 \[114, 115\)[^$]*All else was loaded: 40 rows"):
        run(group_bytes=1 << 20)
    assert loaded_offsets(output) == {("t", 1): [*range(40)]}
    proved(output)
    assert run(group_bytes=1 << 20, keep_damaged=True).rows == 119
    proved(output)
