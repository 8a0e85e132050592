"""When a replica counts as caught up, lagging, fit for the ISR."""

from zkbroker.replica.remote import RemoteReplica


def test_caught_up_when_it_has_everything():
    replica = RemoteReplica(2)
    replica.begin(1000, in_sync=False)
    assert replica.lags(10, 1000, 500)
    replica.fetched(10, 0, 10, 2000)
    assert not replica.lags(12, 2400, 500)
    assert replica.lags(12, 2600, 500)
    assert not replica.lags(10, 9999, 500)  # it has everything there is


def test_having_what_was_there_at_the_fetch_before_dates_from_then():
    replica = RemoteReplica(2)
    replica.begin(0, in_sync=False)
    replica.fetched(5, 0, 10, 1000)
    replica.fetched(10, 0, 20, 2000)
    assert replica.caught_up_ms == 1000
    replica.fetched(15, 0, 30, 3000)
    assert replica.caught_up_ms == 1000


def test_members_count_as_caught_up_when_a_leadership_begins_and_others_never():
    member, other = RemoteReplica(2), RemoteReplica(3)
    member.begin(1000, in_sync=True)
    other.begin(1000, in_sync=False)
    assert member.keeps_up(1400, 500)
    assert not other.keeps_up(1000, 500)
    assert member.log_end_offset == -1


def test_a_new_epoch_of_the_same_leader_keeps_positions():
    replica = RemoteReplica(2)
    replica.fetched(7, 0, 10, 100)
    replica.begin_epoch(200, in_sync=True)
    assert replica.log_end_offset == 7


def test_fit_for_the_isr():
    replica = RemoteReplica(2, log_end_offset=5)
    assert replica.may_join(5, 5, 3)
    assert not replica.may_join(6, 0, 0)
    assert not replica.may_join(0, 6, 0)


def test_a_replica_that_holds_what_the_leader_deleted_stays_out_of_the_isr():
    """The leader has no epochs for it, so what the replica has there may differ."""
    replica = RemoteReplica(2)
    replica.fetched(5, 2, 5, 100)
    assert not replica.may_join(5, 5, 3)
    assert not replica.may_join(5, 5, 5)
    replica.fetched(5, 3, 5, 200)
    assert replica.may_join(5, 5, 3)
