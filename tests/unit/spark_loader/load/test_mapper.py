"""A mapper counts once, also with several attempts."""

import shutil
from dataclasses import replace

import pytest

from spark_loader.errors import DamagedLog
from spark_loader.load.mapper import run_mapper
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, damage, verified


def test_mapper_with_missing_files_runs_again(run, output):
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, "before commit of the table"))
    min(output.glob("topic=*/*/*/*-00000-*.parquet")).unlink()
    result = run()
    assert (result.resumed, result.adopted, result.rows) == (True, 1, 140)
    verified(output)


def test_first_attempt_to_publish_wins(run, output):
    """The second attempt publishes just before the first, as in speculation."""
    copies = []

    class SecondAttemptFirst(CrashingFileSystem):
        def publish(self, path, data):
            if path.endswith("offsets/00000.json") and not copies:
                copies.append(run_mapper(tasks[0]))
            return super().publish(path, data)

    tasks = []

    class Spark(InlineSpark):
        def parallelize(self, given, slices):
            tasks.extend(replace(task, filesystem=LOCAL) for task in given)
            return super().parallelize(given, slices)

    result = run(SecondAttemptFirst(LOCAL), Spark(), group_bytes=1 << 20)
    assert [copy.troubles for copy in copies] == [()]
    assert result.rows == 140
    verified(output)
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []


@pytest.fixture
def tasks(run, cluster):
    """The tasks of a load, not run."""

    class Stopped(InlineSpark):
        def collect(self):
            raise Crash

    spark = Stopped()
    cluster.append("t", 0, [b"y" * 1000] * 20, per_batch=1)
    with pytest.raises(Crash):
        run(spark=spark, target_bytes=1, fetch_bytes=2000)
    return spark._tasks


def test_finished_mapper_reads_nothing(tasks, cluster):
    rows = [run_mapper(task).rows for task in tasks]
    shutil.rmtree(cluster.path)
    assert [run_mapper(task).rows for task in tasks] == rows == [120, 40]


def test_failed_attempt_removes_its_files(tasks, cluster, output):
    damage(cluster, "t", 0, entry=15)
    outcome = run_mapper(tasks[0])
    [trouble] = outcome.troubles
    assert isinstance(trouble, DamagedLog)
    assert "t-0 [114, 115)" in str(trouble)
    assert list(output.glob("_zkbroker/runs/*/staging/*")) == []
    assert list(output.rglob("*.parquet")) == []
    assert list(output.glob("_zkbroker/runs/*/offsets/*")) == []


def test_damaged_partition_does_not_block_others_of_same_mapper(run, cluster, output):
    cluster.append("t", 0, [b"y" * 1000] * 20, per_batch=1)
    damage(cluster, "t", 0, entry=15)
    with pytest.raises(DamagedLog, match=r"t-0 \[114, 115\)[^$]*All else was loaded: 40 rows"):
        run(group_bytes=1 << 20)
    assert loaded_offsets(output) == {("t", 1): [*range(40)]}
    verified(output)
    assert run(group_bytes=1 << 20, keep_damaged=True).rows == 119
    verified(output)
