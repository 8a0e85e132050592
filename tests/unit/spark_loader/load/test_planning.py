"""The plan of a run: every offset is in a range or a gap; only a policy may give offsets up."""

import pytest

from spark_loader.errors import DataLoss, LoadError
from spark_loader.lake.ledger import Gap
from spark_loader.load.options import LoadOptions
from spark_loader.load.planning import Extent, check_same_topic, make_plan, only, place
from spark_loader.reading.positions import (
    EARLIEST_BOUND,
    LATEST_BOUND,
    AtOffsets,
    AtTime,
    AtTimes,
    TopicPartition,
)
from tests.support.directory_cluster import DirectoryCluster, DirectoryView
from tests.support.loading import AT, entry
from tests.support.transactional import TransactionalLog
from zkbroker.errors import UnknownTopicOrPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


@pytest.fixture
def cluster(tmp_path):
    cluster = DirectoryCluster(str(tmp_path))
    cluster.append("t", 0, [b"x"] * 100)
    cluster.append("t", 1, [b"x"] * 40)
    return cluster


def planned(cluster, latest=None, *, committed=False, **fields):
    if committed:
        fields |= {"bootstrap": "b:1", "isolation_level": "read_committed"}
    options = LoadOptions(**{"output": "/lake", "topics": ("t",), **fields})
    return make_plan(3, options, cluster.view(None if not committed else options.connect()), latest)


def covered(plan):
    return {(each.source, each.start, each.until) for each in plan.ranges}


def test_first_run_covers_whole_log(cluster):
    plan, held = planned(cluster)
    assert covered(plan) == {(T0, 0, 100), (T1, 0, 40)}
    assert (plan.run, plan.positions, plan.log_ends, held) == (
        3,
        {T0: 0, T1: 0},
        {T0: 100, T1: 40},
        [],
    )


def test_later_run_continues_and_includes_new_partition(cluster):
    cluster.append("t", 2, [b"x"] * 3)
    latest = entry(2, positions={T0: 60, T1: 40})
    plan, _ = planned(cluster, latest, starting=AtOffsets({T0: 1}))
    assert covered(plan) == {(T0, 60, 100), (T2, 0, 3)}


def test_partition_without_records_since_starting_time_begins_at_end(cluster):
    cluster.append("t", 0, [b"new"] * 5, timestamp_ms=AT + 1000)
    plan, held = planned(cluster, starting=AtTime(AT + 1000))
    assert covered(plan) == {(T0, 100, 105)}
    assert (plan.positions, held) == ({T0: 100, T1: 40}, [])
    cluster.append("t", 1, [b"x"] * 2)
    plan, _ = planned(cluster, entry(2, positions={T0: 105, T1: 40}), starting=AtTime(AT + 1000))
    assert covered(plan) == {(T1, 40, 42)}


@pytest.mark.parametrize("starting", [EARLIEST_BOUND, LATEST_BOUND, AtTime(AT), AtTime(AT + 1)])
def test_log_growing_during_planning_is_not_held_back(cluster, monkeypatch, starting):
    def growing(look_up):
        def grow_then_look_up(view, asked):
            cluster.append("t", 0, [b"new"])
            return look_up(view, asked)

        return grow_then_look_up

    for name in ("earliest", "latest", "log_ends", "at_time"):
        monkeypatch.setattr(DirectoryView, name, growing(getattr(DirectoryView, name)))
    plan, held = planned(cluster, starting=starting)
    assert held == []
    assert plan.positions[T0] <= plan.log_ends[T0]


def test_no_plan_without_new_records(cluster):
    assert planned(cluster, entry(2, positions={T0: 100, T1: 40})) == (None, [])


def test_record_and_byte_limits_are_respected(cluster):
    plan, _ = planned(cluster, max_records=30)
    assert sum(each.size for each in plan.ranges) == 30
    plan, _ = planned(cluster, max_bytes=1)
    assert sum(each.size for each in plan.ranges) <= 2


def test_deleted_offsets_hold_partition_back_unless_policy_allows(cluster):
    cluster.delete_before("t", 0, 50)
    latest = entry(2, positions={T0: 20, T1: 0})
    plan, (held,) = planned(cluster, latest)
    assert covered(plan) == {(T1, 0, 40)}
    assert isinstance(held, DataLoss)
    assert "t-0 [20, 50): deleted from the log" in str(held)
    for policy, begin in (("earliest", 50), ("nearest", 50), ("latest", 100)):
        plan, held = planned(cluster, latest, on_out_of_range=policy)
        assert held == []
        assert [(gap.start, gap.until) for gap in plan.gaps] == [(20, begin)]
        assert plan.positions[T0] == 20


def test_deleted_topic_does_not_block_others_and_unknown_topic_fails(cluster):
    gone = TopicPartition("gone", 0), TopicPartition("gone", 1)
    latest = entry(2, positions={T0: 20, **dict.fromkeys(gone, 5)}, topics_created_ms={"gone": 7})
    plan, held = planned(cluster, latest, topics=("gone", "t"))
    assert covered(plan) == {(T0, 20, 100), (T1, 0, 40)}
    assert {str(each).partition(";")[0] for each in held} == {
        "topic gone is no longer in the cluster"
    }
    assert plan.topics_created_ms["gone"] == 7
    plan, held = planned(cluster, latest, topics=("gone",))
    assert (plan, len(held)) == (None, 2)
    with pytest.raises(UnknownTopicOrPartition, match="gnoe"):
        planned(cluster, latest, topics=("gnoe", "t"))


def test_position_beyond_log_end_fails_under_every_policy():
    for policy in ("fail", "earliest", "latest", "nearest"):
        with pytest.raises(DataLoss, match="the log ends at 5"):
            place(T0, 6, Extent(0, 5, 5), policy)
    assert place(T0, 5, Extent(0, 5, 5), "fail") == (5, None)
    gap = place(T0, 1, Extent(2, 5, 5), "latest")[1]
    assert isinstance(gap, Gap)
    assert "go on at the end" in gap.cause


def test_recreated_topic_is_data_loss():
    check_same_topic(T0, 5, {"t": 1}, {"t": 1})
    check_same_topic(T0, 0, {"t": 1}, {"t": 2})
    check_same_topic(T0, 5, {}, {"t": 2})
    with pytest.raises(DataLoss, match="--topic t --partition 0 --to 5"):
        check_same_topic(T0, 5, {"t": 1}, {"t": 2})


def test_starting_bounds_are_limited_to_new_partitions():
    assert only(AtOffsets({T0: 1, T1: 2}), {T1}) == AtOffsets({T1: 2})
    assert only(AtTimes({T0: 1, T1: 2}), {T1}) == AtTimes({T1: 2})


def test_no_matching_topic_is_an_error(cluster):
    with pytest.raises(LoadError, match=r"whitelist='none.*'"):
        planned(cluster, topics=(), whitelist="none.*")


def test_read_committed_plan_ends_at_open_transaction(cluster, tmp_path):
    log = TransactionalLog(tmp_path / "made")
    log.send(None, 5)
    log.send(1, 5)
    cluster.store("t", 0, log)
    plan, held = planned(cluster, committed=True)
    assert covered(plan) == {(T0, 0, 5), (T1, 0, 40)}
    assert (plan.log_ends[T0], plan.read_committed, held) == (10, True, [])
    # An earlier load with the other isolation level read further: the next one waits.
    latest = entry(2, positions={T0: 8, T1: 40})
    assert planned(cluster, latest, committed=True) == (None, [])
    log.abort(1)
    cluster.store("t", 0, log)
    plan, _ = planned(cluster, latest, committed=True)
    assert covered(plan) == {(T0, 8, 11)}
