"""Commits under their versions, while others are added."""

import pytest
from deltalake import DeltaTable

from spark_loader.errors import CheckpointError
from spark_loader.lake.commits import numbered_commits
from tests.support.loading import AT


def runs(commits):
    return {
        commit["zkbroker"]["run"]: commit["version"] for commit in commits if "zkbroker" in commit
    }


def test_a_commit_between_two_looks_shifts_no_number(run, cluster, output):
    run()
    [(_, first)] = runs(numbered_commits(lambda: DeltaTable(output))).items()
    looks = []

    def newest():
        table = DeltaTable(output)
        if not looks:
            cluster.append("t", 0, [b"x"], timestamp_ms=AT)
            run()
        looks.append(table.version())
        return table

    assert runs(numbered_commits(newest)) == {1: first, 2: first + 1}
    assert looks == [first, first + 1, first + 1]


def test_a_log_that_never_rests_is_given_up(run, cluster, output):
    run()

    class Restless:
        """A table with another version at each look."""

        at = 0

        def version(self):
            self.at += 1
            return self.at

        def history(self):
            return []

    restless = Restless()
    with pytest.raises(CheckpointError, match="faster than they can be read"):
        numbered_commits(lambda: restless)


def test_no_table_has_no_commits():
    assert numbered_commits(lambda: None) == []
