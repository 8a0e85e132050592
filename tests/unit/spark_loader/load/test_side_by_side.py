"""Concurrent loads into one output, interleaved at chosen steps without a clock."""

import contextlib

import pytest

from spark_loader import EventTime, LoadError, ValueColumns
from spark_loader.errors import CheckpointError
from spark_loader.lake import recover
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.formats import TABLE_FORMATS
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.lake.rows import held
from spark_loader.reading.positions import TopicPartition
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loading import LOCAL, verified

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


class ActionBeforeStep(CrashingFileSystem):
    """Performs an action once, before a step of a load."""

    def __init__(self, step, action):
        super().__init__(LOCAL)
        self._name = step
        self._action = action

    def step(self, name):
        super().step(name)
        if self._action is not None and name.startswith(self._name):
            action, self._action = self._action, None
            action()

    def done(self):
        return self._action is None


@pytest.fixture(params=TABLE_FORMATS)
def load(request, run, cluster):
    if request.param == "iceberg":
        pytest.importorskip("pyiceberg")
    for topic in "ab":
        cluster.append(topic, 0, [b"%d" % n for n in range(20)])

    def load(topic, filesystem=LOCAL, **fields):
        given = {"topics": [*topic], "group": f"g-{topic}", "table": request.param}
        return run(filesystem, **given, **fields)

    return load


def offsets(output):
    lake = Checkpoints(LOCAL, str(output))
    found = held(LOCAL, lake.output, lake.table.files())
    return {tp.topic: sum(each.rows for each in found[tp]) for tp in found}


STEPS = (
    "after publish plan.json",
    "before write",
    "before publish 00000.json",
    "after publish 00000.json",
)
COMMITS = {"delta": "before commit of the table", "iceberg": "before publish v"}


@pytest.mark.parametrize("step", [*STEPS, "the commit"])
def test_concurrent_load_of_other_topic_counts(load, output, cluster, request, step, lake):
    kind = request.node.callspec.params["load"]
    filesystem = ActionBeforeStep(
        COMMITS.get(kind) if step == "the commit" else step, lambda: load("b")
    )
    assert load("a", filesystem).rows == 20
    assert filesystem.done()
    assert offsets(output) == {"a": 20, "b": 20}
    latest = lake.table.latest()
    assert latest.positions == {A0: 20, B0: 20}
    assert (latest.settled, latest.counted) == (2, ())
    assert verified(output).commits == 2
    # Each commits the offsets of its own topic.
    assert cluster.view(None).group_offsets("g-a", []) == {A0: 20}
    assert [load("ab").rows, load("a").rows, load("b").rows] == [0, 0, 0]


def test_concurrent_load_of_same_topic_is_refused(load, output):
    def again():
        with pytest.raises(LoadError, match="a load of topic a into this output is running"):
            load("ab")

    filesystem = ActionBeforeStep("before write", again)
    assert load("a", filesystem).rows == 20
    assert filesystem.done()
    assert verified(output).commits == 1


class NoLocks(ActionBeforeStep):
    """Without locks, as if a lock was lost."""

    def lock(self, path, owner):
        return contextlib.nullcontext()


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_without_locks_one_of_two_loads_of_a_partition_counts(load, output, format_):
    other = []

    def again():
        # The second load does not see the plan of the first.
        unfinished = Checkpoints.unfinished
        Checkpoints.unfinished = lambda self, topics=None: None
        try:
            other.append(load("a", NoLocks("never", None), format=format_).rows)
        finally:
            Checkpoints.unfinished = unfinished

    filesystem = NoLocks("after publish 00000.json", again)
    with pytest.raises(CheckpointError, match=r"a-0 was moved from offset 0 to 20 by run 2"):
        load("a", filesystem, format=format_)
    assert other == [20]
    assert verified(output).rows == 20
    assert len([*output.glob("topic=*/**/*.*")]) == 1
    assert [each.name for each in (output / "_zkbroker/runs").glob("*/*.json")] == ["plan.json"]
    assert load("a").rows == 0
    assert verified(output).commits == 1


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_files_stay_when_another_load_published_the_same_run(load, output, format_):
    other = []

    def again():
        # The second load sees the plan of the first, and resumes it.
        other.append(load("a", NoLocks("never", None), format=format_))

    filesystem = NoLocks("after publish 00000.json", again)
    with pytest.raises(CheckpointError, match="run 1 was already published"):
        load("a", filesystem, format=format_)
    assert [(each.resumed, each.adopted, each.rows) for each in other] == [(True, 1, 20)]
    assert verified(output).rows == 20
    assert load("a").rows == 0


def test_load_whose_column_another_load_added_meanwhile_can_be_given_another_name(
    load, output, cluster
):
    cluster.append("a", 1, [b'{"n": 1}'])
    cluster.append("b", 1, [b'{"n": "1"}'])

    def columns(given):
        return {"columns": ValueColumns.json(given), "max_quarantined": None}

    filesystem = ActionBeforeStep(
        "after publish plan.json", lambda: load("b", **columns("n:string"))
    )
    with pytest.raises(LoadError, match="another name"):
        load("a", filesystem, **columns("n:long"))
    assert filesystem.done()
    assert load("a", **columns("number=n:long")).rows == 1
    assert verified(output).rows + verified(output).quarantined == 42
    assert len([*output.glob("topic=*/**/*.parquet")]) == 2


def test_stopped_run_is_resumed_only_by_load_of_its_topic(load, output, lake):
    with pytest.raises(Crash):
        load("a", CrashingFileSystem(LOCAL, "after publish 00000.json"))
    assert load("b").rows == 20
    assert (lake.table.latest().settled, lake.table.latest().counted) == (0, (2,))
    assert offsets(output) == {"b": 20}
    verified(output)
    again = load("a")
    assert (again.resumed, again.adopted, again.run, again.rows) == (True, 1, 1, 20)
    latest = lake.table.latest()
    assert (latest.settled, latest.counted, latest.run) == (2, (), 1)
    assert offsets(output) == {"a": 20, "b": 20}
    verified(output)


def test_offsets_load_once_after_crash_beside_other_load(load, output, cluster):
    steps = CrashingFileSystem(LOCAL)
    load("a", steps)
    for at in range(0, len(steps.steps), 9):
        for topic in "ab":
            cluster.append(topic, 0, [b"x"] * 5)

        class Both(CrashingFileSystem):
            def step(self, name):
                if name == "before publish plan.json":
                    load("b")
                super().step(name)

        with contextlib.suppress(Crash):
            load("a", Both(LOCAL, at))
        load("a")
        load("b")
    total = {topic: cluster.end(topic, 0) for topic in "ab"}
    assert offsets(output) == total
    verified(output)


@pytest.mark.parametrize("before", ["look", "deletion"])
def test_rows_stay_if_other_load_begins_after_rewind(
    load, output, cluster, command, lake, before, monkeypatch
):
    cluster.append("a", 1, [b"%d" % n for n in range(20)])
    load("ab", group_bytes=1 << 20)
    command("rewind", output, "-t", "a", "--partition", 0, "--to", 10)
    cluster.append("b", 0, [b"new"])
    place, name = {"look": (recover, "take_back"), "deletion": (type(lake.table.format), "delete")}[
        before
    ]
    original = getattr(place, name)
    reloaded = []

    def later(*given, **named):
        monkeypatch.setattr(place, name, original)
        # It began before the other load, which has the lock now.
        reloaded.append(load("a", NoLocks("never", None)).rows)
        return original(*given, **named)

    monkeypatch.setattr(place, name, later)
    assert load("b").rows == 1
    assert reloaded == [10]
    assert verified(output).rows == 61


def test_vacuum_keeps_files_of_running_load(run, cluster, output, lake):
    def given(filesystem):
        return run(filesystem, topics=["a"], event_time=EventTime.json("at"))

    for _ in range(2):
        cluster.append("a", 0, [b'{"at": %d}' % (n % 3 * 3600) for n in range(9)])
        given(LOCAL)
    optimize(lake)
    cluster.append("a", 0, [b'{"at": %d}' % (n % 3 * 3600) for n in range(9)])

    def clean():
        assert vacuum(lake) == []
        with pytest.raises(LoadError, match="a load of topic a into this output is running"):
            vacuum(lake, retention_hours=0, allow_short=True)

    for step in ("before publish 00000.json", "before commit of the table"):
        filesystem = ActionBeforeStep(step, clean)
        assert given(filesystem).rows == 9
        assert filesystem.done()
        assert verified(output).rows == cluster.end("a", 0)
        cluster.append("a", 0, [b'{"at": %d}' % (n % 3 * 3600) for n in range(9)])
    # Files of finished mappers of a stopped load stay, whatever the retention is.
    with pytest.raises(Crash):
        given(CrashingFileSystem(LOCAL, "before commit of the table"))
    doomed = vacuum(lake, retention_hours=0, allow_short=True)
    assert doomed
    assert given(LOCAL).adopted == 1
    assert verified(output).rows == cluster.end("a", 0)
    import polars as pl

    assert pl.read_delta(str(output)).height == cluster.end("a", 0)
