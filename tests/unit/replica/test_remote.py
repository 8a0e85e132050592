"""The conditions under which a replica is caught up, lagging, or allowed into the ISR."""

from zkbroker.replica.remote import RemoteReplica


def test_replica_lags_after_time_without_catching_up():
    replica = RemoteReplica(2)
    replica.begin_epoch(1000, in_sync=False)
    assert replica.lags(10, 1000, 500)
    replica.fetched(10, 0, 10, 2000)
    assert not replica.lags(12, 2400, 500)
    assert replica.lags(12, 2600, 500)
    assert not replica.lags(10, 9999, 500)  # it has all records


def test_catching_up_to_previous_end_counts_from_previous_fetch():
    replica = RemoteReplica(2)
    replica.begin_epoch(0, in_sync=False)
    replica.fetched(5, 0, 10, 1000)
    replica.fetched(10, 0, 20, 2000)
    assert replica.caught_up_ms == 1000
    replica.fetched(15, 0, 30, 3000)
    assert replica.caught_up_ms == 1000


def test_only_isr_members_start_as_caught_up():
    member, other = RemoteReplica(2), RemoteReplica(3)
    member.begin_epoch(1000, in_sync=True)
    other.begin_epoch(1000, in_sync=False)
    assert member.keeps_up(1400, 500)
    assert not other.keeps_up(1000, 500)
    assert member.log_end_offset == -1


def test_new_epoch_keeps_position():
    replica = RemoteReplica(2)
    replica.fetched(7, 0, 10, 100)
    replica.begin_epoch(200, in_sync=True)
    assert replica.log_end_offset == 7


def test_replica_may_join_isr_from_high_watermark_and_epoch_start():
    replica = RemoteReplica(2, log_end_offset=5)
    assert replica.may_join(5, 5, 3)
    assert not replica.may_join(6, 0, 0)
    assert not replica.may_join(0, 6, 0)


def test_replica_with_records_deleted_by_leader_may_not_join_isr():
    """The leader has no epochs for these records, so that they may differ."""
    replica = RemoteReplica(2)
    replica.fetched(5, 2, 5, 100)
    assert not replica.may_join(5, 5, 3)
    assert not replica.may_join(5, 5, 5)
    replica.fetched(5, 3, 5, 200)
    assert replica.may_join(5, 5, 3)
