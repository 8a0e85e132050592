"""Partitions that broker 1 leads, and what happens to them."""

from tests.support.replicas import decided, make_partition
from zkbroker.registry.partition_states import IsrUpdate, LeaderAndIsr
from zkbroker.replica.reads import ReadEnd


class Counter:
    """Stands for a delayed operation; counts how often it was woken."""

    def __init__(self):
        self.woken = 0

    def wake(self):
        self.woken += 1


def leading(values=b"abcdef", *, isr=(1, 2, 3), epoch=5, **more):
    """Broker 1 leads t-0 with replicas on 2 and 3, and appended `values` in this epoch."""
    partition = make_partition(**more)
    partition.become_leader(decided(1, epoch, isr))
    if values:
        partition.leadership().append(values)
    return partition


def append_for_all(partition, values=b"abc"):
    """Append with acks=all; returns a function that tells whether it is replicated."""
    leadership = partition.leadership()
    result = leadership.append(values, acks=-1)
    return lambda: leadership.replicated(result.last_offset)


def fetch(partition, replica_id, offset):
    found = partition.leadership().read(offset, 100, reader=ReadEnd.LOG_END)
    partition.leadership().record_follower_fetch(replica_id, offset, 0, found.log_end_offset)
    return found


def written(partition):
    """What was proposed, as stored in ZooKeeper."""
    asked = partition.leadership().proposed_isr()
    stored = LeaderAndIsr(
        asked.leader, asked.leader_epoch, asked.isr, asked.controller_epoch, asked.zk_version + 1
    )
    return partition.leadership().resolve_isr(
        asked, IsrUpdate(stored, written=True, still_leader=True)
    )
