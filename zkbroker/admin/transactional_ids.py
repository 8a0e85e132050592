"""Transactional ids, read from the topic `__transaction_state`.

The protocol of this level has no request that lists or describes transactions; those came with 3.0.
A coordinator's state of an id is its last record in the topic, which any client may read: so this
works with genuine brokers from 0.11 on as well as with ours.

Invariant: only `abort` changes anything. It asks the id's own coordinator, and fences the producer,
    as a new instance of it would.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zkbroker.admin.partition_reading import read_entries
from zkbroker.client import Cluster
from zkbroker.client.coordinator import RETRIED, CoordinatorConnection
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    UnknownTopicOrPartition,
    protocol_error,
)
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.messages import InitProducerIdRequest
from zkbroker.protocol.messages.membership import TRANSACTION_COORDINATOR
from zkbroker.protocol.transaction_topic import (
    TRANSACTION_TOPIC,
    TransactionState,
    TransactionValue,
    decode_transaction,
    decode_transaction_key,
)
from zkbroker.records import iter_records
from zkbroker.types import PartitionKey

ABORT_TIMEOUT_S = 60.0
_RETRY_MS = 100
_S = TransactionState
ENDING = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""Decided: the coordinator is writing the markers."""
_PASSING = RETRIED | {ErrorCode.CONCURRENT_TRANSACTIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """One id.

    Args:
        name: the id.
        coordinator: the broker that leads its partition of the topic, None without a leader.
        coordinator_epoch: the leader epoch under which its last record was written.
        producer_id: of its producer.
        producer_epoch: of the latest instance.
        timeout_ms: after which an ongoing transaction is aborted.
        state: of its last transaction.
        partitions: of the transaction that is ongoing or ending.
        start_ms: when the last transaction began; -1 before the first.
        last_update_ms: when the record was written.
    """

    name: str
    coordinator: int | None
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: tuple[PartitionKey, ...]
    start_ms: int
    last_update_ms: int

    @property
    def open(self) -> bool:
        """Whether a transaction is ongoing or ending."""
        return self.state is _S.ONGOING or self.state in ENDING


def state_name(state: TransactionState) -> str:
    """Return a state as genuine tools write it: `PrepareCommit`."""
    return state.name.title().replace("_", "")


def list_ids(cluster: Cluster) -> list[TransactionalId]:
    """Return every transactional id, in order; none if there never was a transaction.

    Raises:
        ZkbrokerError: a broker does not answer.
    """
    partitions = _partitions(cluster)
    found = _read(cluster, [(TRANSACTION_TOPIC, each) for each in range(partitions)])
    return [found[name] for name in sorted(found)]


def describe_id(cluster: Cluster, name: str) -> TransactionalId:
    """Return one transactional id.

    Raises:
        ClientError: it is not known.
        ZkbrokerError: a broker does not answer.
    """
    partitions = _partitions(cluster)
    if partitions:
        key = (TRANSACTION_TOPIC, key_partition(name, partitions))
        found = _read(cluster, [key]).get(name)
        if found is not None:
            return found
    raise ClientError(
        f"there is no transactional id {name!r}: zkbroker transactions list shows all ids "
        "(one unused for transactional.id.expiration.ms is forgotten)"
    )


def abort(cluster: Cluster, name: str, *, timeout_s: float = ABORT_TIMEOUT_S) -> TransactionalId:
    """Abort the ongoing transaction of an id, and fence its producer; return the transaction.

    Args:
        cluster: finds the coordinator.
        name: the id.
        timeout_s: how long the coordinator may take to write the markers.

    Raises:
        ClientError: the id is not known, or has no transaction that can be aborted.
        ProtocolError: the coordinator refuses, or the time is over.
    """
    found = describe_id(cluster, name)
    if found.state in ENDING:
        verb = "committed" if found.state is _S.PREPARE_COMMIT else "aborted"
        raise ClientError(
            f"the transaction of {name!r} is being {verb} (state {state_name(found.state)}): "
            "its coordinator sends the markers until every partition has "
            "one; check that the leaders of its partitions are up"
        )
    if found.state is not _S.ONGOING:
        raise ClientError(f"{name!r} has no transaction to abort (state {state_name(found.state)})")
    coordinator = CoordinatorConnection(
        cluster,
        name,
        runtime=cluster.runtime,
        backoff_ms=_RETRY_MS,
        key_type=TRANSACTION_COORDINATOR,
    )
    # A new producer epoch fences: the coordinator aborts, and answers when that is done.
    answer = coordinator.ask(
        InitProducerIdRequest(name, found.timeout_ms),
        timeout_s=timeout_s,
        error_of=lambda answer: int(answer.error_code),
        retried=_PASSING,
    )
    if answer.error_code:
        raise protocol_error(answer.error_code, f"abort of the transaction of {name!r}")
    return found


def _partitions(cluster: Cluster) -> int:
    try:
        return len(cluster.partitions(TRANSACTION_TOPIC))
    except UnknownTopicOrPartition:
        return 0


def _read(cluster: Cluster, keys: Iterable[PartitionKey]) -> dict[str, TransactionalId]:
    wanted = list(keys)
    starts = resolve_or_end(cluster, dict.fromkeys(wanted, EARLIEST_TIME))
    ends = resolve_or_end(cluster, dict.fromkeys(wanted, LATEST_TIME))
    found: dict[str, TransactionalId] = {}
    for key in wanted:
        for entry in read_entries(cluster, key, starts[key], ends[key]):
            if entry.head.is_control:
                continue
            for record in iter_records(entry.data):
                try:
                    name = decode_transaction_key(record.key or b"")
                    value = None if record.value is None else decode_transaction(record.value)
                except MalformedFrame as error:
                    raise ClientError(
                        f"{key[0]}-{key[1]} cannot be read at offset {record.offset}: {error}"
                    ) from error
                if name is None:
                    continue  # a later version of the record
                if value is None:
                    found.pop(name, None)
                else:
                    epoch = entry.head.partition_leader_epoch
                    found[name] = _transactional_id(name, value, cluster.leader(*key), epoch)
    return found


def _transactional_id(
    name: str, value: TransactionValue, coordinator: int | None, epoch: int
) -> TransactionalId:
    return TransactionalId(
        name=name,
        coordinator=coordinator,
        coordinator_epoch=epoch,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=TransactionState(value.state),
        partitions=tuple(
            sorted(
                (topic.topic, number) for topic in value.topics or () for number in topic.partitions
            )
        ),
        start_ms=value.start_ms,
        last_update_ms=value.last_update_ms,
    )
