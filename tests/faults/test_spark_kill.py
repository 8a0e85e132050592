"""Kill -9 of the driver, the executor and Python workers, and a full disk, at seeded steps."""

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from spark_loader import Loader, LoadError
from spark_loader.storage.files import LocalFileSystem
from tests.support import soak
from tests.support.clusters import module_cluster
from tests.support.killing import KillingFileSystem, arm, options
from tests.support.loaded import loaded_offsets
from tests.support.loading import verified
from tests.support.producing import access_log_topic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
ROWS = 600
SEED = 20150517


cluster = module_cluster(1)


@pytest.fixture(scope="module")
def topic(cluster):
    return access_log_topic(cluster, ROWS)


@pytest.fixture(scope="module")
def steps(spark, cluster, topic, tmp_path_factory):
    """Number of steps of a load of the topic."""
    place = tmp_path_factory.mktemp("whole")
    arm(place / "state", 0, "none")
    filesystem = KillingFileSystem(str(place / "state"))
    wanted = options(str(place / "lake"), cluster.zookeeper, topic)
    Loader(wanted, filesystem=filesystem).run(spark)
    return (place / "state" / "steps").stat().st_size


def load_until_failure(victim, state, output, cluster, topic, spark):
    """Run the load in which `victim` is killed; drivers and executors run in their own process."""
    if victim in ("worker", "disk"):
        wanted = options(str(output), cluster.zookeeper, topic)
        Loader(wanted, filesystem=KillingFileSystem(str(state))).run(spark)
        return
    arguments = [str(state), str(output), cluster.zookeeper, topic]
    subprocess.run(
        [sys.executable, "-m", "tests.support.killing", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=600,
        check=True,
    )


def check_load_after_failure(victim, at, place, cluster, topic, spark):
    state, output = place / "state", place / "lake"
    arm(state, at, victim, driver=os.getpid())
    with contextlib.suppress(LoadError, OSError, subprocess.CalledProcessError):
        load_until_failure(victim, state, output, cluster, topic, spark)
    assert (state / "fired").exists()
    Loader(options(str(output), cluster.zookeeper, topic), filesystem=LocalFileSystem()).run(spark)
    verified(output)
    assert loaded_offsets(output) == {(topic, p): [*range(ROWS // 3)] for p in range(3)}
    again = Loader(options(str(output), cluster.zookeeper, topic)).run(spark)
    assert again.rows == 0


def seeded(steps, count, salt):
    return sorted(random.Random(SEED + salt).sample(range(1, steps + 1), count))


def worker_steps(steps):
    """Steps that workers take: after the plan's, before the renames and the manifest."""
    return range(3, steps // 2)


@pytest.mark.parametrize("victim", ["worker", "disk"])
def test_offsets_load_once_after_task_failure(victim, steps, cluster, topic, spark, tmp_path):
    [at] = seeded(steps // 2, 1, len(victim))
    check_load_after_failure(victim, max(3, at), tmp_path, cluster, topic, spark)


@pytest.mark.parametrize("victim", ["driver", pytest.param("executor", marks=pytest.mark.soak)])
def test_offsets_load_once_after_process_kill(victim, steps, cluster, topic, spark, tmp_path):
    [at] = seeded(steps - 6, 1, len(victim))
    check_load_after_failure(victim, at, tmp_path, cluster, topic, spark)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_offsets_load_once_after_sixty_seeded_failures(steps, cluster, topic, spark, tmp_path):
    victims = ["driver", "executor", "worker", "disk"]
    for number in soak.seeds(0, 60):
        victim = victims[number % len(victims)]
        if victim == "worker":
            at = random.Random(SEED + number).choice(worker_steps(steps))
        else:
            at = random.Random(SEED + number).randint(1, steps - 6)
        place = tmp_path / f"{number}-{victim}-{at}"
        check_load_after_failure(victim, at, place, cluster, topic, spark)
