"""Finds open transactions in the partitions' logs, and those that will never end.

    last stable offset < high watermark      a transaction is open: its batches, and later
                                             transactions and markers, lie between the two
    hanging                                  open for long, and unknown to any coordinator: readers
                                             of committed messages wait before it for ever, and the
                                             log is not compacted beyond it

Both offsets come from ListOffsets, and the entries between them are fetched, as any client may: so
this works with genuine brokers from 0.11 on as well as with ours.

Invariants: a transaction is hanging only if it was open in the log, then unknown to its
    coordinator, and after that still open in the log: so one that ends meanwhile is not hanging. A
    transaction that its coordinator knows is not ended without it, unless the caller forces that.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from zkbroker.admin.partition_reading import read_entries
from zkbroker.admin.transactional_ids import ENDING, TransactionalId, list_ids, state_name
from zkbroker.client import Cluster
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.client.view import NO_EPOCH
from zkbroker.errors import ClientError, ErrorCode, protocol_error
from zkbroker.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.messages.write_txn_markers import TxnMarker
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC, TransactionState
from zkbroker.types import PartitionKey

_MARKERS_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmarkedTransaction:
    """A transaction without a marker.

    Args:
        partition: its partition.
        leader: the broker that leads it, None if there is none.
        producer_id: of its producer.
        producer_epoch: of its last batch.
        first_offset: of its first message.
        last_offset: of its last message.
        since_ms: timestamp of its first batch.
    """

    partition: PartitionKey
    leader: int | None
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    since_ms: int


class Verdict(Enum):
    """The future of an open transaction."""

    HANGING = "hanging"
    ONGOING = "ongoing"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class Judged:
    """An open transaction, its verdict, and the transactional id of its producer, if any."""

    transaction: UnmarkedTransaction
    verdict: Verdict
    of: TransactionalId | None


def led_partitions(
    cluster: Cluster, topic: str | None = None
) -> tuple[list[PartitionKey], list[PartitionKey]]:
    """Return the partitions of a topic, or of all, that can be read, and those without a leader.

    Raises:
        UnknownTopicOrPartition: it does not exist.
        ZkbrokerError: no broker answers.
    """
    if topic is not None:
        cluster.partitions(topic)
    topics = cluster.topics() if topic is None else [topic]
    cluster.refresh(topics)
    led: list[PartitionKey] = []
    without: list[PartitionKey] = []
    for name in topics:
        for each in cluster.known_partitions(name) or ():
            (without if each.leader is None else led).append((name, each.partition))
    return led, without


def find_open(cluster: Cluster, partitions: Collection[PartitionKey]) -> list[UnmarkedTransaction]:
    """Return the open transactions of partitions.

    Raises:
        ZkbrokerError: a broker does not answer, or a partition does not exist.
    """
    latest = dict.fromkeys(partitions, LATEST_TIME)
    ends = resolve_or_end(cluster, latest)
    stable = resolve_or_end(cluster, latest, read_committed=True)
    found: list[UnmarkedTransaction] = []
    for key in sorted(latest):
        if stable[key] < ends[key]:
            found += _open_in(cluster, key, stable[key], ends[key])
    return found


def find_hanging(
    cluster: Cluster,
    partitions: Collection[PartitionKey],
    *,
    older_than_ms: int,
    now_ms: int | None = None,
) -> list[Judged]:
    """Return the transactions that are open for long, each with a verdict.

    Args:
        cluster: the brokers.
        partitions: to read.
        older_than_ms: least age of the first batch, by its timestamp.
        now_ms: the time of day; the clock's by default.

    Raises:
        ZkbrokerError: a broker does not answer.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    old = [
        each for each in find_open(cluster, partitions) if each.since_ms + older_than_ms <= now_ms
    ]
    if not old:
        return []
    judged = judge(old, list_ids(cluster))
    suspected = {each.transaction.partition for each in judged if each.verdict is Verdict.HANGING}
    still = {_name(each) for each in find_open(cluster, suspected)} if suspected else set()
    return [
        each
        for each in judged
        if each.verdict is not Verdict.HANGING or _name(each.transaction) in still
    ]


def judge(found: Iterable[UnmarkedTransaction], ids: Iterable[TransactionalId]) -> list[Judged]:
    """Judge open transactions by the states of their coordinators.

    Args:
        found: read before `ids`.
        ids: all transactional ids.
    """
    by_producer = {each.producer_id: each for each in ids}
    judged = []
    for each in found:
        known = by_producer.get(each.producer_id)
        verdict = Verdict.HANGING
        if known is not None and each.partition in known.partitions:
            # The same marker ends a transaction of an older epoch.
            if known.state is TransactionState.ONGOING:
                verdict = Verdict.ONGOING
            elif known.state in ENDING:
                verdict = Verdict.ENDING
        judged.append(Judged(each, verdict, known))
    return judged


def select(found: Iterable[UnmarkedTransaction], *, first_offset: int) -> UnmarkedTransaction:
    """Return the open transaction that begins at an offset.

    Raises:
        ClientError: there is none; the message names the open ones.
    """
    others = list(found)
    for each in others:
        if each.first_offset == first_offset:
            return each
    begin = ", ".join(str(each.first_offset) for each in others)
    raise ClientError(
        f"no open transaction begins at offset {first_offset}: "
        + (f"open ones begin at {begin}" if begin else "none is open in this partition")
    )


def abort_by_marker(
    cluster: Cluster,
    partition: PartitionKey,
    first_offset: int,
    *,
    coordinator_epoch: int | None = None,
    force: bool = False,
) -> UnmarkedTransaction:
    """Have the leader of a partition write an ABORT marker; return the ended transaction.

    Args:
        cluster: the brokers.
        partition: its partition.
        first_offset: of the transaction.
        coordinator_epoch: of the marker; None for the coordinator's own, if it is known.
        force: whether to abort a transaction that a coordinator knows.

    Raises:
        ClientError: there is no such transaction, or its coordinator has it.
        ProtocolError: the leader refuses.
    """
    found = select(find_open(cluster, [partition]), first_offset=first_offset)
    ids = list_ids(cluster)
    (judged,) = judge([found], ids)
    if judged.verdict is not Verdict.HANGING and judged.of is not None and not force:
        raise ClientError(_refusal(judged.verdict, judged.of))
    if coordinator_epoch is None:
        coordinator_epoch = _coordinator_epoch(cluster, judged.of, ids)
    cluster.refresh([partition[0]])
    leader = cluster.leader(*partition)
    if leader is None:
        raise ClientError(f"{partition[0]}-{partition[1]} has no leader now: start a replica of it")
    # If it ended meanwhile, the marker would abort the next transaction of its producer.
    found = select(find_open(cluster, [partition]), first_offset=first_offset)
    request = WriteTxnMarkersRequest(
        [
            TxnMarker(
                found.producer_id,
                found.producer_epoch,
                False,
                [TxnTopicPartitions(partition[0], [partition[1]])],
                coordinator_epoch,
            )
        ]
    )
    answer: WriteTxnMarkersResponse = cluster.connection(leader).request(request, _MARKERS_VERSION)
    code = answer.markers[0].topics[0].partitions[0].error_code
    if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        raise protocol_error(
            code,
            f"abort in {partition[0]}-{partition[1]}: the producer's last marker has a higher "
            f"coordinator epoch than {coordinator_epoch}: give --coordinator-epoch",
        )
    if code:
        raise protocol_error(code, f"abort in {partition[0]}-{partition[1]}")
    return found


def _refusal(verdict: Verdict, known: TransactionalId) -> str:
    if verdict is Verdict.ONGOING:
        return (
            f"the transaction is ongoing, of transactional id {known.name!r}: abort it with its "
            f"coordinator, in all its partitions: zkbroker transactions abort {known.name}"
        )
    return (
        f"the transaction of {known.name!r} is decided (state {state_name(known.state)}), and its "
        "coordinator sends the marker: check that its broker is up; --force ends it here "
        "anyway, and readers may then find half of it"
    )


def _coordinator_epoch(
    cluster: Cluster, of: TransactionalId | None, ids: Iterable[TransactionalId]
) -> int:
    """Return the epoch of the coordinator that may have sent the producer's last marker.

    An unknown producer may have had any coordinator; its id is never given out again.
    """
    epochs = [0, *(each.coordinator_epoch for each in ([of] if of else ids))]
    if of is None:
        known = cluster.known_partitions(TRANSACTION_TOPIC) or ()
        epochs += [each.leader_epoch for each in known if each.leader_epoch != NO_EPOCH]
    return max(epochs)


def _open_in(
    cluster: Cluster, key: PartitionKey, start: int, end: int
) -> Iterable[UnmarkedTransaction]:
    """Return a log's transactions from the last stable offset on that have no marker."""
    found: dict[int, UnmarkedTransaction] = {}
    for entry in read_entries(cluster, key, start, end):
        head = entry.head
        if not head.is_transactional:
            continue
        if head.is_control:
            found.pop(head.producer_id, None)
            continue
        first = found.get(head.producer_id)
        found[head.producer_id] = UnmarkedTransaction(
            partition=key,
            leader=cluster.leader(*key),
            producer_id=head.producer_id,
            producer_epoch=head.producer_epoch,
            first_offset=head.base_offset if first is None else first.first_offset,
            last_offset=head.last_offset,
            since_ms=head.max_timestamp if first is None else first.since_ms,
        )
    return found.values()


def _name(each: UnmarkedTransaction) -> tuple[PartitionKey, int, int]:
    return each.partition, each.producer_id, each.first_offset
