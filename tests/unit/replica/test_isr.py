"""The ISR and the change of it under way."""

from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.isr import InSyncReplicas


def test_what_is_proposed_counts_for_the_high_watermark_and_not_for_min_isr():
    isr = InSyncReplicas((2, 1), 4)
    assert isr.propose({1, 2, 3})
    assert (isr.members, isr.proposed, isr.electable) == ((2, 1), (2, 1, 3), {1, 2, 3})


def test_one_change_at_a_time():
    isr = InSyncReplicas((1, 2), 4)
    assert not isr.propose({1, 2})
    assert isr.propose({1})
    assert not isr.propose({1, 2, 3})


def test_a_written_change_is_what_is_stored():
    isr = InSyncReplicas((1, 2), 4)
    isr.propose({1})
    isr.resolve(IsrUpdate(LeaderAndIsr(1, 0, (1,), 1, 5), written=True, still_leader=True))
    assert (isr.members, isr.zk_version, isr.electable) == ((1,), 5, {1})


def test_a_state_that_cannot_be_read_ends_the_changes():
    isr = InSyncReplicas((1, 2), 4)
    isr.propose({1})
    isr.resolve(IsrUpdate(None, written=False, still_leader=False))
    assert isr.members == (1, 2)
    assert not isr.propose({1})
