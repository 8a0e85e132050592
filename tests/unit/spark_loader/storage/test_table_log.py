"""Logs of tables: durable in a directory, mirrored where the library does not support it."""

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from spark_loader.errors import CheckpointError, LoadError
from spark_loader.lake import table
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.operate import rewind
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.lake.table import LakeTable
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LocalFileSystem
from spark_loader.storage.table_log import MirroredTableLog
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, entry, table_file, verified

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Remote(LocalFileSystem):
    """A directory that the library cannot use itself."""

    def table_log(self, output):
        return MirroredTableLog(self, output)

    def upload(self, local, path):
        self.replace(path, local.read_bytes())


@pytest.fixture
def tables(tmp_path):
    return [LakeTable(Remote(sync=False), str(tmp_path / "far")) for _ in range(2)]


def test_mirrored_commits_are_visible_to_others(tables, tmp_path):
    one, two = tables
    one.commit(entry(1, positions={T0: 5}), [table_file(1)])
    two.commit(entry(2, positions={T0: 9}), [table_file(2)])
    assert one.latest().run == 2
    assert len(DeltaTable(str(tmp_path / "far")).file_uris()) == 2


def test_commit_is_retried_when_version_is_taken(tables):
    one, two = tables
    one.commit(entry(1, positions={T0: 5}))
    log = one.format._log
    table = DeltaTable(log.uri)
    two.commit(entry(2, positions={T0: 5, T1: 7}), [table_file(2)])
    calls = []

    def write():
        calls.append(1)
        base = DeltaTable(log.uri, version=1)
        moved = CommitProperties(app_transactions=[Transaction("zkbroker:t-2", 3)])
        base.create_write_transaction([], "append", table.schema(), commit_properties=moved)
        base.update_incremental()
        return base.version()

    assert log.commit(write) == 3
    assert len(calls) == 2
    assert two.positions([T1, T2]) == {T1: 7, T2: 3}


def test_second_commit_from_same_position_is_refused(tables):
    one, two = tables
    one.commit(entry(1, positions={T0: 5}))
    inner = one.format.commit

    def while_another_commits(base, change):
        if two.latest().run == 1:
            two.commit(entry(2, positions={T0: 9}), [table_file(2)])
        inner(base, change)

    one.format.commit = while_another_commits
    with pytest.raises(CheckpointError, match="t-0 was moved from offset 5 to 9"):
        one.commit(entry(3, positions={T0: 8}), [table_file(3)], since={T0: 5})
    assert one.positions([T0]) == {T0: 9}
    assert [each.path for each in two.files()] == [table_file(2).path]


def test_lake_commands_work_through_mirrored_log(run, cluster, output, tmp_path):
    far = Remote(sync=False)
    for _ in range(3):
        run(far)
        cluster.append("t", 0, [b"x"] * 10)
    lake = Checkpoints(far, str(output))
    assert rewind(lake, [T0], 105) == {T0: 105}
    assert run(far).rows == 25
    before = verified(output, far)
    done = optimize(Checkpoints(far, str(output)))
    assert (done.after, done.added) == (1, 1)
    after = verified(output, far)
    assert (after.rows, after.rows_crc) == (before.rows, before.rows_crc)
    assert loaded_offsets(output) == {("t", 0): [*range(130)], ("t", 1): [*range(40)]}
    with pytest.raises(LoadError, match="works on local directories and buckets"):
        vacuum(Checkpoints(far, str(output)))


@pytest.mark.parametrize("lost", ["a commit", "the ledger"])
def test_adopt_begins_anew_through_mirrored_log(run, cluster, output, monkeypatch, lost):
    monkeypatch.setattr(table, "_INLINE_BYTES", 0)
    far = Remote(sync=False)
    for _ in range(2):
        run(far)
        cluster.append("t", 0, [b"x"] * 10)
    if lost == "a commit":
        (output / f"_delta_log/{1:020d}.json").write_text("{")
    else:
        max(output.glob("_zkbroker/ledger/*.json")).unlink()
    result = run(far, adopt=True)
    assert (result.run, result.rows) == (4, 10)
    assert verified(output, far).rows == 160


def commit_file(output, version):
    return f"{output}/_delta_log/{version:020d}.json"


def test_local_commit_is_durable_after_every_earlier_one(tmp_path, synced):
    output = str(tmp_path / "lake")
    other = LakeTable(LocalFileSystem(sync=False), output)
    other.commit(entry(1, positions={T0: 5}), [table_file(1)])
    other.commit(entry(2, positions={T0: 7}), [table_file(2)])
    durable = LakeTable(LocalFileSystem(), output)
    assert synced == []
    durable.commit(entry(3, positions={T0: 9}), [table_file(3)])
    log = f"{output}/_delta_log"
    commits = [commit_file(output, version) for version in range(4)]
    assert [path for path in synced if path in commits] == commits
    assert synced.index(commits[2]) < synced.index(log) < synced.index(commits[3])
    assert synced[-1] == log
    assert output in synced
    synced.clear()
    durable.commit(entry(4, positions={T0: 11}), [table_file(4)])
    assert synced == [commit_file(output, 4), log]


def test_every_local_commit_of_one_write_is_durable(tmp_path, synced):
    durable = LakeTable(LocalFileSystem(), str(tmp_path / "lake"))
    durable.commit(entry(1, positions={T0: 5}), [table_file(1)])
    other = LakeTable(LocalFileSystem(sync=False), durable.output)

    def write():
        for run in (2, 3):
            other.commit(entry(run, positions={T0: 5 + run}), [table_file(run)])
        return 3

    synced.clear()
    durable.format._log.commit(write)
    assert synced == [
        commit_file(durable.output, 2),
        commit_file(durable.output, 3),
        f"{durable.output}/_delta_log",
    ]


def test_files_written_by_the_library_are_durable_before_their_commit(
    run, cluster, output, lake, synced
):
    run()
    cluster.append("t", 0, [b"x"] * 10)
    run()
    before = {each.path for each in lake.table.files()}
    durable = Checkpoints(LocalFileSystem(), str(output))
    optimize(durable)
    [merged] = [each.path for each in lake.table.files() if each.path not in before]
    file = f"{output}/{merged}"
    [commit] = [
        each
        for each in synced
        if each.endswith(".json") and '"OPTIMIZE"' in LOCAL.read(each).decode()
    ]
    assert synced.index(file) < synced.index(file.rpartition("/")[0]) < synced.index(commit)
    synced.clear()
    rewind(durable, [T0], 50)
    assert [each for each in synced if each.endswith(".parquet")] == [
        f"{output}/{each.path}" for each in lake.table.files()
    ]


def test_local_checkpoints_of_the_log_are_durable(tmp_path, synced):
    durable = LakeTable(LocalFileSystem(), str(tmp_path / "lake"))
    for run in range(1, 22):
        durable.commit(entry(run, positions={T0: run}))
    log = f"{durable.output}/_delta_log"
    made = {f"{log}/{name}" for name in LOCAL.names(log)}
    assert f"{log}/_last_checkpoint" in made
    assert made <= set(synced)
