"""Pairs of source and target offsets, and the translation of a group's offsets by them.

    topic mirror-offset-syncs, one partition, a message for each partition that moved:
    key    {"source": NAME, "topic": T, "partition": P}
    value  {"offset": next offset in the source,
            "target_topic": T, "target_partition": P, "target_offset": next offset in the target}

Invariant: a translated offset is never after the first message that the group has not read. Between
    two syncs with the same distance in both logs, offsets are interpolated; elsewhere the earlier
    sync is used, and the group reads some messages again.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.consumer import AssignedConsumer, ConsumerTimeout
from zkbroker.errors import ClientError, RequestTimedOut, UnknownTopicOrPartition
from zkbroker.mirror.state_keys import encode_key, parse_key, parse_offset
from zkbroker.mirror.tracker import Place
from zkbroker.producer import KeyedMessage
from zkbroker.registry.node_json import read_json
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, order=True)
class Sync:
    """One position in both logs."""

    offset: int
    target_offset: int
    topic: str
    partition: int


def sync_message(
    topic: str, source: str, key: PartitionKey, offset: int, place: Place
) -> KeyedMessage:
    """Return the message of one position."""
    return KeyedMessage(
        topic,
        json.dumps(
            {
                "offset": offset,
                "target_topic": place.topic,
                "target_partition": place.partition,
                "target_offset": place.offset,
            }
        ).encode(),
        key=encode_key(source, key),
        partition=0,
    )


def read_syncs(cluster: Cluster, topic: str, source: str) -> dict[PartitionKey, list[Sync]]:
    """Read all syncs of a source.

    Args:
        cluster: of the target, started.
        topic: of the syncs.
        source: name of the source.

    Raises:
        ClientError: there is no such topic.
        RequestTimedOut: no message of it came for some time.
        ZkbrokerError: it cannot be read.
    """
    try:
        keys = [(topic, each.partition) for each in cluster.partitions(topic)]
    except UnknownTopicOrPartition:
        raise ClientError(
            f"the target has no topic {topic}: mirror with --identity-partitions, and give the "
            "same --offset-syncs-topic"
        ) from None
    starts = resolve_or_end(cluster, dict.fromkeys(keys, EARLIEST_TIME), timeout_s=_READ_TIMEOUT_S)
    ends = resolve_or_end(cluster, dict.fromkeys(keys, LATEST_TIME), timeout_s=_READ_TIMEOUT_S)
    found: dict[PartitionKey, list[Sync]] = {}
    timeout_ms = round(_READ_TIMEOUT_S * 1000)
    with AssignedConsumer(cluster, starts, stop=ends, timeout_ms=timeout_ms) as consumer:
        try:
            for message in consumer:
                key = parse_key(message.key, source)
                if key is None or message.value is None:
                    continue
                sync = _sync(message.value)
                if sync is None:
                    logger.warning("not a sync, skipped topic=%s offset=%d", topic, message.offset)
                else:
                    found.setdefault(key, []).append(sync)
        except ConsumerTimeout:
            raise RequestTimedOut(
                f"no message of {topic} of the target came for {_READ_TIMEOUT_S:g} s"
            ) from None
    return found


def _sync(value: bytes) -> Sync | None:
    offset, target_offset = parse_offset(value, "offset"), parse_offset(value, "target_offset")
    number = parse_offset(value, "target_partition")
    if offset is None or target_offset is None or number is None:
        return None
    topic = read_json(value).get("target_topic")
    return Sync(offset, target_offset, topic, number) if isinstance(topic, str) else None


def translate(
    offsets: Mapping[PartitionKey, int], syncs: Mapping[PartitionKey, Iterable[Sync]]
) -> dict[PartitionKey, Place | None]:
    """Translate committed offsets of a source into offsets of the target; None if unknown.

    Args:
        offsets: next offset to read of each partition of the source.
        syncs: of each partition, in any order.
    """
    return {key: _translate(offset, sorted(syncs.get(key, ()))) for key, offset in offsets.items()}


def _translate(offset: int, syncs: list[Sync]) -> Place | None:
    at = bisect_right(syncs, offset, key=lambda sync: sync.offset) - 1
    if at < 0:
        return None
    # If messages were mirrored twice, take the first copy in the target.
    offset_at = syncs[at].offset
    first = next(sync for sync in syncs if sync.offset == offset_at)
    behind = offset - first.offset
    if behind and at + 1 < len(syncs):
        later = syncs[at + 1]
        even = later.offset - first.offset == later.target_offset - first.target_offset
        behind = behind if even else 0
    elif behind:
        behind = 0
    return Place(first.topic, first.partition, first.target_offset + behind)
