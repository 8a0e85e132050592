"""Partitions that broker 1 leads, with appends, fetches and ISR changes."""

from dataclasses import replace

from tests.support.replicas import decided, make_partition
from zkbroker.registry.partition_states import IsrUpdate
from zkbroker.replica.reads import ReadEnd


class Counter:
    """A delayed operation that only counts its wake-ups."""

    def __init__(self):
        self.woken = 0

    def wake(self):
        self.woken += 1


def leading(values=b"abcdef", *, isr=(1, 2, 3), epoch=5, **more):
    """Return t-0, led by broker 1 with replicas on 2 and 3, after an append of `values`."""
    partition = make_partition(**more)
    partition.become_leader(decided(1, epoch, isr))
    if values:
        partition.leadership().append(values)
    return partition


def append_for_all(partition, values=b"abc"):
    """Append with acks=all; return a function that returns whether the append is replicated."""
    leadership = partition.leadership()
    result = leadership.append(values, acks=-1)
    return lambda: leadership.replicated(result.last_offset)


def fetch(partition, replica_id, offset):
    found = partition.leadership().read(offset, 100, reader=ReadEnd.LOG_END)
    partition.leadership().record_follower_fetch(replica_id, offset, 0, found.log_end_offset)
    return found


def catch_up(partition):
    """Let broker 2 fetch at the log's end."""
    fetch(partition, 2, partition.log_end_offset)


def resolve_written(partition):
    """Resolve the proposed ISR as stored in ZooKeeper."""
    proposed = partition.leadership().proposed_isr()
    stored = replace(proposed, zk_version=proposed.zk_version + 1)
    return partition.leadership().resolve_isr(
        proposed, IsrUpdate(stored, written=True, still_leader=True)
    )
