"""The ISR and its pending change."""

from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.isr import InSyncReplicas


def test_proposed_member_counts_for_high_watermark_not_min_isr():
    isr = InSyncReplicas((2, 1), 4)
    assert isr.propose({1, 2, 3})
    assert (isr.members, isr.proposed, isr.electable) == ((2, 1), (2, 1, 3), {1, 2, 3})


def test_only_one_isr_change_is_pending():
    isr = InSyncReplicas((1, 2), 4)
    assert not isr.propose({1, 2})
    assert isr.propose({1})
    assert not isr.propose({1, 2, 3})


def test_written_change_becomes_isr():
    isr = InSyncReplicas((1, 2), 4)
    isr.propose({1})
    isr.resolve(IsrUpdate(LeaderAndIsr(1, 0, (1,), 1, 5), written=True, still_leader=True))
    assert (isr.members, isr.zk_version, isr.electable) == ((1,), 5, {1})


def test_unreadable_state_ends_changes():
    isr = InSyncReplicas((1, 2), 4)
    isr.propose({1})
    isr.resolve(IsrUpdate(None, written=False, still_leader=False))
    assert isr.members == (1, 2)
    assert not isr.propose({1})
