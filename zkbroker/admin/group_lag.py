"""How far a group is behind the ends of its partitions.

    committed:     lag = log end - committed offset
    not committed: whether `auto.offset.reset` has the messages read is not known here; they are
                   counted apart
    no leader:     the log end is not known

Invariant: a partition of a group's topics is in exactly one of the three, so that no sum is smaller
than it looks.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group is in a partition.

    Args:
        offset: the committed one; None without a commit.
        start: first offset that the log holds; None while no broker serves the partition.
        end: log end offset; None while no broker serves the partition.
        owner: the member that reads it.
    """

    offset: int | None
    start: int | None = None
    end: int | None = None
    owner: str | None = None

    @property
    def lag(self) -> int | None:
        """Messages between the commit and the end; None where one of the two is not known."""
        if self.offset is None or self.end is None:
            return None
        return max(0, self.end - self.offset)

    @property
    def uncommitted(self) -> int | None:
        """Messages that the log holds, where nothing is committed; None where something is."""
        if self.offset is not None or self.end is None:
            return None
        return self.end - (self.start or 0)


@dataclass(frozen=True, slots=True)
class LagSum:
    """The lag of many partitions.

    Args:
        lag: messages after the commits.
        partitions: how many of the partitions that counts.
        uncommitted: messages in partitions without a commit.
        without_commit: how many partitions those are.
        without_leader: partitions whose end is not known.
    """

    lag: int
    partitions: int
    uncommitted: int
    without_commit: int
    without_leader: int

    @property
    def not_counted(self) -> str:
        """What the lag leaves out, in words; empty for nothing."""
        said = []
        if self.without_commit:
            said.append(
                f"{_counted(self.uncommitted, 'message')} in "
                f"{_counted(self.without_commit, 'partition')} without a commit"
            )
        if self.without_leader:
            said.append(f"{_counted(self.without_leader, 'partition')} without a leader")
        return ", ".join(said)


def sum_lag(positions: Iterable[GroupPosition]) -> LagSum:
    """Add up the positions of a group."""
    lags, held, unserved = [], [], 0
    for each in positions:
        if each.lag is not None:
            lags.append(each.lag)
        elif each.uncommitted is not None:
            held.append(each.uncommitted)
        else:
            unserved += 1
    return LagSum(sum(lags), len(lags), sum(held), len(held), unserved)


def locate(
    cluster: Cluster,
    offsets: Mapping[PartitionKey, int],
    owners: Mapping[PartitionKey, str],
    topics: Collection[str],
) -> dict[PartitionKey, GroupPosition]:
    """Return where a group is in every partition of its topics.

    Args:
        cluster: the brokers.
        offsets: what the group committed.
        owners: partition → member.
        topics: those that the group reads besides; with a commit or an owner a topic is one.

    Raises:
        ProtocolError: a leader does not answer.
    """
    names = sorted({*topics, *(topic for topic, _ in (*offsets, *owners))})
    if names:
        cluster.refresh(names)
    keys = {*offsets, *owners}
    for topic in names:
        keys |= {(topic, info.partition) for info in cluster.known_partitions(topic) or ()}
    served = [key for key in sorted(keys) if cluster.leader(*key) is not None]
    ends = resolve_offsets(cluster, dict.fromkeys(served, LATEST_TIME))
    starts = resolve_offsets(
        cluster, dict.fromkeys([key for key in served if key not in offsets], EARLIEST_TIME)
    )
    return {
        key: GroupPosition(offsets.get(key), starts.get(key), ends.get(key), owners.get(key))
        for key in sorted(keys)
    }


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
