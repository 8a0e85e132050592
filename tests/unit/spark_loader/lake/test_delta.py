"""Calls of the Delta library; `test_table.py` checks their results."""

import pytest
from deltalake import DeltaTable

from spark_loader.errors import CheckpointError
from spark_loader.lake.delta import numbered_commits, predicate
from spark_loader.lake.formats import open_table
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_files import base_schema
from spark_loader.lake.table_format import Change, CommitLost
from spark_loader.reading.positions import TopicPartition
from tests.support.loading import LOCAL, entry
from zkbroker.types import Partition07

T0 = TopicPartition("t", 0)


def test_predicate_selects_rows_from_offset_of_each_partition():
    old = TopicPartition("o", Partition07(0, 3))
    assert predicate({T0: 5, old: 90}) == (
        '("topic" = \'o\' AND "partition" = 3 AND "position" >= 90) OR '
        '("topic" = \'t\' AND "partition" = 0 AND "offset" >= 5)'
    )


def test_commit_on_outdated_snapshot_is_refused(tmp_path):
    table = LakeTable(LOCAL, str(tmp_path / "lake"))
    table.commit(entry(1))
    base = table.newest()
    other = open_table(LOCAL, table.output)
    table.commit(entry(2))
    # Even with other partitions: its positions of all others would be outdated.
    with pytest.raises(CommitLost):
        other.commit(base, Change(run=3, content={"run": 3}, schema=base_schema()))


def runs(commits):
    return {
        commit["zkbroker"]["run"]: commit["version"] for commit in commits if "zkbroker" in commit
    }


def test_concurrent_commit_does_not_shift_version_numbers(run, cluster, output):
    run()
    [(_, first)] = runs(numbered_commits(lambda: DeltaTable(output))).items()
    looks = []

    def newest():
        table = DeltaTable(output)
        if not looks:
            cluster.append("t", 0, [b"x"])
            run()
        looks.append(table.version())
        return table

    assert runs(numbered_commits(newest)) == {1: first, 2: first + 1}
    assert looks == [first, first + 1, first + 1]


def test_constantly_changing_log_is_an_error(run, cluster, output):
    run()

    class ChangingTable:
        """A table whose version differs at each read."""

        at = 0

        def version(self):
            self.at += 1
            return self.at

        def history(self):
            return []

    changing = ChangingTable()
    with pytest.raises(CheckpointError, match="faster than they can be read"):
        numbered_commits(lambda: changing)


def test_missing_table_has_no_commits():
    assert numbered_commits(lambda: None) == []
