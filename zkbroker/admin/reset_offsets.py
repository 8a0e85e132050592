"""Offset resets: the offset of a target in each partition.

    earliest, latest      the ends of the log
    time                  the first message at or after it; the log end if there is none
    current               the committed offset; the log end if there is none
    offset, shift         a number, or the committed offset moved by one: kept within the log
    given                 offsets of a file: kept within the log

Invariant: no offset lies outside the log, so that no reset becomes an `auto.offset.reset` later.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.errors import ConfigError
from zkbroker.types import PartitionKey


class Way(Enum):
    """The kind of a target."""

    TIME = "time"
    CURRENT = "current"
    OFFSET = "offset"
    SHIFT = "shift"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """The target of a reset.

    Args:
        way: its kind.
        value: ms since 1970, `EARLIEST_TIME` or `LATEST_TIME` (TIME), an offset, or messages to
            move by, backwards below 0 (SHIFT).
        given: the offset of each partition (GIVEN).
    """

    way: Way
    value: int = 0
    given: Mapping[PartitionKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """Args: offsets to commit; moved says which wanted offsets lay outside their log."""

    offsets: Mapping[PartitionKey, int]
    moved: Mapping[PartitionKey, int]


def plan_reset(
    cluster: Cluster,
    target: ResetTarget,
    keys: Sequence[PartitionKey],
    committed: Mapping[PartitionKey, int],
) -> ResetPlan:
    """Find the offset of each partition, of which the group may have committed one.

    Raises:
        ConfigError: a shift of a partition without a commit.
        ZkbrokerError: a leader does not answer.
    """
    if target.way is Way.TIME:
        return ResetPlan(resolve_or_end(cluster, dict.fromkeys(keys, target.value)), {})
    starts = resolve_or_end(cluster, dict.fromkeys(keys, EARLIEST_TIME))
    ends = resolve_or_end(cluster, dict.fromkeys(keys, LATEST_TIME))
    wanted = {key: _wanted(target, key, committed.get(key), ends[key]) for key in keys}
    offsets = {key: max(starts[key], min(ends[key], wanted[key])) for key in keys}
    return ResetPlan(offsets, {key: wanted[key] for key in keys if wanted[key] != offsets[key]})


def _wanted(target: ResetTarget, key: PartitionKey, committed: int | None, end: int) -> int:
    if target.way is Way.OFFSET:
        return target.value
    if target.way is Way.GIVEN:
        return target.given[key]
    if target.way is Way.CURRENT:
        return end if committed is None else committed
    if committed is None:
        raise ConfigError(
            f"{key[0]}-{key[1]} cannot be shifted: the group has committed nothing there; leave "
            "it out, or give an offset"
        )
    return committed + target.value


def read_offsets(lines: Iterable[str]) -> dict[PartitionKey, int]:
    """Read offsets as Kafka's tool exports them: `topic,partition,offset` lines.

    Raises:
        ConfigError: a line has another form, or names a partition again.
    """
    found: dict[PartitionKey, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            key = (topic.strip(), int(partition))
            value = int(offset)
        except ValueError:
            raise ConfigError(
                f"line {number} is not topic,partition,offset: {','.join(row)!r}"
            ) from None
        if key in found:
            raise ConfigError(f"line {number} names {key[0]}-{key[1]} again")
        found[key] = value
    return found
