"""The lag of a group behind the ends of its partitions.

    committed:     lag = log end - committed offset
    not committed: `auto.offset.reset`, which is unknown here, decides whether the messages are
                   read; they are counted apart
    no leader:     the log end is unknown

Invariant: a partition of a group's topics is in exactly one of the three, so that a sum never hides
    a partition.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of a group in a partition.

    Args:
        offset: the committed offset; None without a commit.
        start: log start offset; None while no broker serves the partition.
        end: log end offset; None while no broker serves the partition.
        owner: the member that reads it.
    """

    offset: int | None
    start: int | None = None
    end: int | None = None
    owner: str | None = None

    @property
    def lag(self) -> int | None:
        """Messages between the commit and the end; None if one of the two is unknown."""
        if self.offset is None or self.end is None:
            return None
        return max(0, self.end - self.offset)

    @property
    def uncommitted(self) -> int | None:
        """Messages in the log, if nothing is committed; None if there is a commit."""
        if self.offset is not None or self.end is None:
            return None
        return self.end - (self.start or 0)


@dataclass(frozen=True, slots=True)
class LagSum:
    """The lag of many partitions.

    Args:
        lag: messages after the commits.
        partitions: how many partitions the lag counts.
        uncommitted: messages in partitions without a commit.
        without_commit: how many partitions have no commit.
        without_leader: how many partitions have an unknown end.
    """

    lag: int
    partitions: int
    uncommitted: int
    without_commit: int
    without_leader: int

    @property
    def not_counted(self) -> str:
        """The messages and partitions that the lag leaves out, as text; empty for none."""
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
    """Return a group's position in every partition of its topics.

    Args:
        cluster: the brokers.
        offsets: the group's commits.
        owners: partition → member.
        topics: further topics of the group, beside those with a commit or an owner.

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
