"""The table at one version."""

from spark_loader.lake.pinned import PinnedTable
from spark_loader.lake.table import LakeTable
from spark_loader.reading.positions import TopicPartition
from tests.support.loading import LOCAL


def contents(table):
    source = TopicPartition("t", 0)
    return (
        [each.path for each in table.files()],
        table.positions([source])[source],
        [each.run for each in table.entries()],
        table.latest().positions[source],
        set(table.checksums()),
    )


def test_later_commits_are_not_visible(run, cluster, output):
    run()
    pinned = PinnedTable(LOCAL, str(output))
    before = contents(pinned)
    cluster.append("t", 0, [b"x"])
    run()
    assert contents(pinned) == before
    assert before[1:4] == (100, [1], 100)
    assert contents(LakeTable(LOCAL, str(output)))[1:4] == (101, [1, 2], 101)
    assert contents(PinnedTable(LOCAL, str(output)))[1:4] == (101, [1, 2], 101)


def test_missing_table_is_empty(output):
    pinned = PinnedTable(LOCAL, str(output))
    assert pinned.latest() is None
    assert pinned.files() == []
    assert pinned.entries() == []
