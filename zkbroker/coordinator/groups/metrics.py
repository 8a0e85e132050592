"""Metrics of the groups that a broker coordinates.

Invariant: at most `limit` committed offsets are listed, always all of a group's: groups with
members come first, then by name. Groups left out are counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zkbroker.coordinator.groups.group import GroupState
from zkbroker.coordinator.groups.partitions import GroupPartition
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """The groups of a coordinator at one moment.

    Args:
        states: how many groups are in each state.
        committed: group → partition → committed offset.
        left_out: number of groups with offsets that `committed` does not list.
    """

    states: Mapping[GroupState, int] = field(default_factory=dict)
    committed: Mapping[str, Mapping[PartitionKey, int]] = field(default_factory=dict)
    left_out: int = 0


def group_metrics(partitions: Sequence[GroupPartition], limit: int) -> GroupMetrics:
    """Return the metrics of the groups in loaded partitions, with at most `limit` offsets."""
    states: Counter[GroupState] = Counter(dict.fromkeys(GroupState, 0))
    found = []
    for partition in partitions:
        for group in partition.groups.values():
            states[group.state] += 1
            offsets = partition.store.offsets(group.group_id)
            if offsets:
                found.append((not group.members, group.group_id, offsets))
    committed: dict[str, Mapping[PartitionKey, int]] = {}
    left = limit
    for _, group_id, offsets in sorted(found, key=lambda each: each[:2]):
        if len(offsets) > left:
            break
        left -= len(offsets)
        committed[group_id] = {key: value.offset for key, value in offsets.items()}
    return GroupMetrics(
        states=dict(states), committed=committed, left_out=len(found) - len(committed)
    )
