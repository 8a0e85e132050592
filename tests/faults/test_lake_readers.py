"""DuckDB, Polars, pyarrow and Spark read the rows that `verify` proves, during loads and kills.

At every step of loads, an optimize and a vacuum, and after kill -9 of the process or of a broker at
seeded steps of them.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import soak
from tests.support.clusters import module_cluster
from tests.support.inline_spark import CrashingFileSystem
from tests.support.killing import arm
from tests.support.lake_readers import ICEBERG_READERS, READERS, by_spark
from tests.support.lake_workload import run_workload
from tests.support.loading import LOCAL, verified
from tests.support.producing import access_log_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
ROWS = 600
HALF = ROWS // 2
SEED = 20150517
FILE_GONE = ("no such file", "not found", "no files found")


cluster = module_cluster(2)


@pytest.fixture(scope="module")
def topic(cluster):
    return access_log_topic(cluster, ROWS)


def is_begun(output, table="delta"):
    """Whether there is a table with a run in it."""
    if table == "delta":
        return (output / "_delta_log" / f"{1:020d}.json").exists()
    hint = output / "metadata" / "version-hint.text"
    return hint.exists() and int(hint.read_text()) > 1


def whole(topic, rows):
    """The places of the first rows of every partition: what runs leave, and nothing between."""
    return tuple((topic, p, offset) for p in range(3) for offset in range(rows // 3))


def verified_rows(output, topic, readers=READERS):
    """Return the rows of a lake that all readers and `verify` agree on."""
    report = verified(output)
    for reader in readers:
        found = reader(output)
        assert found.places == whole(topic, report.rows), reader.__name__
        assert found.rows_crc == report.rows_crc, reader.__name__
    return report.rows


class Watched(CrashingFileSystem):
    """Reads the lake with an engine before and after each step."""

    def __init__(self, output, topic):
        super().__init__(LOCAL)
        self._watched = output
        self._topic = topic
        self.row_counts = []
        self._versions = 0

    def step(self, name):
        super().step(name)
        if not is_begun(self._watched):
            return
        # All at each new version, and one in turn at the steps between.
        versions, before = len(list((self._watched / "_delta_log").glob("*.json"))), self._versions
        self._versions = versions
        turn = len(self.row_counts) % len(READERS)
        readers = READERS if versions != before else READERS[turn : turn + 1]
        [places] = {reader(self._watched).places for reader in readers}
        assert places in (whole(self._topic, HALF), whole(self._topic, ROWS)), name
        self.row_counts.append(len(places))


def test_readers_see_only_complete_runs_at_every_step(cluster, topic, tmp_path, spark):
    watched = Watched(tmp_path, topic)
    run_workload(watched, str(tmp_path), cluster.zookeeper, topic)
    assert watched.row_counts == sorted(watched.row_counts)
    assert {*watched.row_counts} == {HALF, ROWS}
    assert len(watched.row_counts) > 40
    assert verified_rows(tmp_path, topic) == ROWS
    assert by_spark(spark, tmp_path) == READERS[0](tmp_path)


def read_during_workload(state, output, cluster, topic, table="delta"):
    """Run the workload in its own process, which may be killed, and read the lake meanwhile."""
    arguments = [str(state), str(output), cluster.zookeeper, topic, table]
    readers = READERS if table == "delta" else ICEBERG_READERS
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.lake_workload", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        seen = 0
        while running.poll() is None:
            if not is_begun(output, table):
                time.sleep(0.02)
                continue
            reader = readers[seen % len(readers)]
            try:
                places = reader(output).places
            except Exception as error:
                # The vacuum may delete files of a version that is being read.
                if not any(text in str(error).lower() for text in FILE_GONE):
                    raise
                continue
            assert places in (whole(topic, HALF), whole(topic, ROWS)), reader.__name__
            seen += 1


@pytest.fixture(scope="module")
def steps(cluster, topic, tmp_path_factory):
    """Number of steps of the workload."""
    return steps_of(cluster, topic, tmp_path_factory.mktemp("whole"), "delta")


def steps_of(cluster, topic, place, table):
    arm(place / "state", 0, "none", driver=0)
    read_during_workload(place / "state", place / "lake", cluster, topic, table)
    readers = READERS if table == "delta" else ICEBERG_READERS
    assert verified_rows(place / "lake", topic, readers) == ROWS
    return (place / "state" / "steps").stat().st_size


def kill_workload(number, steps, cluster, topic, place, table="delta"):
    """Run the workload until the driver or a broker is killed at a seeded step."""
    at = random.Random(SEED + number).randint(1, steps)
    broker = cluster.brokers[number % 2]
    victim = "broker" if number % 8 == 7 else "driver"
    arm(place / "state", at, victim, driver=0, broker=broker.pid)
    read_during_workload(place / "state", place / "lake", cluster, topic, table)
    assert (place / "state" / "fired").read_text() == victim
    if victim == "broker":
        broker.kill()
        broker.start()


def check_after_kill(number, steps, cluster, topic, place):
    kill_workload(number, steps, cluster, topic, place)
    output = place / "lake"
    if is_begun(output):
        assert verified_rows(output, topic) in (HALF, ROWS)
    run_workload(LOCAL, str(output), cluster.zookeeper, topic)
    assert verified_rows(output, topic) == ROWS
    assert len(list(output.rglob("*.parquet"))) == 3


def test_readers_agree_after_kill_at_seeded_steps(steps, cluster, topic, tmp_path, spark):
    for number in (0, 1, 7):  # at the last one a broker dies
        check_after_kill(number, steps, cluster, topic, tmp_path / str(number))
    assert by_spark(spark, tmp_path / "0" / "lake") == READERS[0](tmp_path / "0" / "lake")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_readers_agree_after_sixty_kills(steps, cluster, topic, tmp_path, spark):
    for number in soak.seeds(100, 60):
        place = tmp_path / str(number)
        check_after_kill(number, steps, cluster, topic, place)
        assert by_spark(spark, place / "lake") == READERS[0](place / "lake")


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_iceberg_readers_agree_after_kills(cluster, topic, tmp_path):
    pytest.importorskip("pyiceberg")
    steps = steps_of(cluster, topic, tmp_path / "whole", "iceberg")
    for number in soak.seeds(200, 40):
        place = tmp_path / str(number)
        kill_workload(number, steps, cluster, topic, place, "iceberg")
        output = place / "lake"
        if is_begun(output, "iceberg"):
            verified(output)
            # The hint that readers go by may be one commit late, and is mended by the next load.
            for reader in ICEBERG_READERS:
                assert reader(output).places in (whole(topic, HALF), whole(topic, ROWS))
        run_workload(LOCAL, str(output), cluster.zookeeper, topic, "iceberg")
        assert verified_rows(output, topic, ICEBERG_READERS) == ROWS
