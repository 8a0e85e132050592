"""A load crashes before and after each of its steps; the next load loads each offset once."""

import contextlib
import itertools

import pytest

from spark_loader import EventTime
from spark_loader.lake.checkpoint import Checkpoints
from tests.support.directory_cluster import DirectoryCluster
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, verified

VALUES = [b'{"at": %d, "n": %d}' % (1_431_857_103 + 1800 * (n % 4), n) for n in range(60)]


@pytest.fixture
def cluster(tmp_path):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    cluster.append("t", 0, [*VALUES[:30], b"poison", *VALUES[30:]], per_batch=7)
    cluster.append("t", 1, VALUES[:20], per_batch=5)
    return cluster


@pytest.fixture
def load(run):
    def load(output, filesystem=LOCAL):
        by_value = EventTime.json("at")
        return run(filesystem, output=str(output), group="lake", event_time=by_value)

    return load


@pytest.fixture
def steps(load, tmp_path):
    """The steps of a load without a crash."""
    filesystem = CrashingFileSystem(LOCAL)
    load(tmp_path / "whole", filesystem)
    return filesystem.steps


def last_of_each_kind(steps):
    """Return the number of the last step of each name."""
    return {step: at for at, step in enumerate(steps)}


def check_all_loaded_once(cluster, output):
    report = verified(output)
    checkpoints = Checkpoints(LOCAL, str(output))
    latest = checkpoints.table.latest()
    assert latest is not None
    assert loaded_offsets(output) == {
        ("t", 0): [*range(30), *range(31, 61)],
        ("t", 1): [*range(20)],
    }
    assert report.quarantined == 1
    assert cluster.view(None).group_offsets("lake", []) == latest.positions
    staged = [name for run in checkpoints.run_numbers() for name in checkpoints.staged_names(run)]
    assert staged == []


def test_crashed_load_shows_nothing_and_next_one_loads_each_offset_once(
    load, steps, cluster, tmp_path
):
    check_all_loaded_once(cluster, tmp_path / "whole")
    assert len(steps) > 60
    # The first commit makes an empty table.
    [_, publication] = [n for n, each in enumerate(steps) if each == "before commit of the table"]
    # The disk is the same after a step and before the next one, so only the latter is tested.
    stops = [at for at, step in enumerate(steps) if step.startswith("before")]
    for at in [*stops, len(steps) - 1]:
        output = tmp_path / f"stopped-{at}"
        with pytest.raises(Crash):
            load(output, CrashingFileSystem(LOCAL, at))
        table = Checkpoints(LOCAL, str(output)).table
        if at <= publication:
            assert (table.latest(), table.files()) == (None, [])
        load(output)
        check_all_loaded_once(cluster, output)


def test_offsets_load_once_after_second_crash(load, steps, cluster, tmp_path):
    changes = {
        step: at for step, at in last_of_each_kind(steps).items() if step.startswith("before")
    }
    assert len(changes) > 7
    for first, second in itertools.product(changes.values(), changes):
        output = tmp_path / f"stopped-{first}-{changes[second]}"
        with pytest.raises(Crash):
            load(output, CrashingFileSystem(LOCAL, first))
        # A resumed run repeats no change that was made.
        with contextlib.suppress(Crash):
            load(output, CrashingFileSystem(LOCAL, second))
        load(output)
        check_all_loaded_once(cluster, output)


def test_load_resumes_after_full_disk(load, steps, cluster, tmp_path):
    for at in sorted({*last_of_each_kind(steps).values(), *range(0, len(steps), 17)}):
        output = tmp_path / f"full-{at}"
        full = CrashingFileSystem(LOCAL, at, OSError)
        with pytest.raises(Exception, match="stopped at"):
            load(output, full)
        load(output)
        check_all_loaded_once(cluster, output)


def test_resumed_run_keeps_ranges_and_finished_mappers(load, cluster, tmp_path):
    crashing = CrashingFileSystem(LOCAL, "after publish 00000.json")
    with pytest.raises(Crash):
        load(tmp_path / "o", crashing)
    checkpoints = Checkpoints(LOCAL, str(tmp_path / "o"))
    planned = checkpoints.plan(1).ranges
    cluster.append("t", 0, [b'{"at": 1}'] * 5)
    result = load(tmp_path / "o")
    assert (result.resumed, result.adopted, result.run) == (True, 1, 1)
    assert [(each.source, each.start, each.until) for each in result.ranges] == [
        (each.source, each.start, each.until) for each in planned
    ]
    later = load(tmp_path / "o")
    assert (later.run, later.rows) == (2, 5)
