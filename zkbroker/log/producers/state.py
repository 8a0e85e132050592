"""The last batches of idempotent producers, so that a batch that is sent twice is stored once.

    snapshot file `%020d.snapshot` (the state of the producers before that offset):
    version:int16 = 1   crc:uint32 (CRC-32C of what follows)   count:int32
    count x  producer_id:int64 epoch:int16 last_sequence:int32 last_offset:int64
             offset_delta:int32 timestamp:int64 coordinator_epoch:int32
             current_txn_first_offset:int64

Invariant: the sequences of a producer's stored batches, in one epoch, follow one another without a
gap; the last five are remembered. A snapshot has the genuine broker's format: it holds the last
batch of each producer. A damaged snapshot is ignored, and the log is read instead.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.producers.transactions import OpenTransaction
from zkbroker.log.segments.transaction_index import AbortedTransaction
from zkbroker.records import EntryInfo, Marker, crc32c

REMEMBERED_BATCHES = 5
LAST_GIVEN_ID: Final = 2**62 - 1
"""The highest producer id that is accepted as assigned; a cluster assigns ids from 0 on."""
_SEQUENCES = 2**31
_VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class BatchMetadata(NamedTuple):
    """A stored batch of an idempotent producer."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))
    timestamp: int = -1
    last_offset: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int = -1
    silent_since_ms: int | None = None
    """By this broker's clock: the timestamps of messages do not tell when a producer was active."""


class ProducerState:
    """The idempotent producers of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}
        self.open: OrderedDict[int, _Producer] = OrderedDict()
        """Producers with an open transaction, ascending by its first offset."""

    def __len__(self) -> int:
        return len(self._producers)

    def producer_ids(self) -> Iterator[int]:
        """Yield the ids of known producers that a cluster can have assigned.

        A client may write any number into its batches. If the highest were taken as assigned, one
        batch could use up the ids of a cluster.
        """
        return (each for each in self._producers if 0 <= each <= LAST_GIVEN_ID)

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the transactions without a marker."""
        return [
            OpenTransaction(
                producer_id,
                known.epoch,
                known.coordinator_epoch,
                known.txn_first_offset,
                known.last_offset,
            )
            for producer_id, known in self.open.items()
        ]

    def first_unstable_offset(self, log_start_offset: int) -> int | None:
        """Return where the first open transaction begins, None if none is open.

        A transaction without data in the log does not count.
        """
        for known in self.open.values():
            if known.last_offset >= log_start_offset:
                return max(log_start_offset, known.txn_first_offset)
        return None

    def aborted_by(self, marker: EntryInfo) -> AbortedTransaction:
        """Return the transaction that an ABORT marker ends; call this before `update`."""
        known = self.open.get(marker.producer_id)
        others = (each.txn_first_offset for each in self.open.values() if each is not known)
        return AbortedTransaction(
            marker.producer_id,
            marker.base_offset if known is None else known.txn_first_offset,
            marker.last_offset,
            next(others, marker.last_offset + 1),
        )

    def check(self, entry: EntryInfo, *, sequenced: bool = True) -> BatchMetadata | None:
        """Check a batch before it is stored.

        An unknown producer is accepted with any sequence, as in brokers from 2.5 on.

        Args:
            entry: the batch, with any offsets.
            sequenced: whether to check its sequence; a coordinator writes each batch once, always
                with sequence 0.

        Returns:
            The stored batch that it repeats, None if it is new.

        Raises:
            ProtocolError: OUT_OF_ORDER_SEQUENCE_NUMBER (45) for a gap or an older repeat,
                INVALID_PRODUCER_EPOCH (47) for a replaced epoch, INVALID_TXN_STATE (48) for a batch
                outside of the producer's open transaction.
        """
        known = self._producers.get(entry.producer_id)
        if entry.producer_id < 0 or entry.base_sequence < 0 or known is None:
            return None
        if entry.producer_epoch < known.epoch:
            raise ProtocolError(
                f"producer {entry.producer_id} has epoch {known.epoch}, "
                f"but this batch has epoch {entry.producer_epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if not sequenced:
            return None
        if entry.producer_epoch > known.epoch:
            expected = 0
        elif not known.batches:
            return None
        else:
            last = _last_sequence(entry)
            for batch in known.batches:
                if batch.first_sequence == entry.base_sequence and batch.last_sequence == last:
                    return batch
            expected = (known.batches[-1].last_sequence + 1) % _SEQUENCES
        if entry.base_sequence != expected:
            raise ProtocolError(
                f"producer {entry.producer_id} sent sequence {entry.base_sequence}, "
                f"expected {expected}",
                code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            )
        if known.txn_first_offset >= 0 and not entry.is_transactional:
            raise ProtocolError(
                f"producer {entry.producer_id} has an open transaction, but this batch is in none",
                code=ErrorCode.INVALID_TXN_STATE,
            )
        return None

    def check_marker(self, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Check a marker of a coordinator before it is stored.

        Raises:
            ProtocolError: INVALID_PRODUCER_EPOCH (47) for a replaced producer,
                TRANSACTION_COORDINATOR_FENCED (52) for a replaced coordinator.
        """
        known = self._producers.get(producer_id)
        if known is None:
            return
        if producer_epoch < known.epoch:
            raise ProtocolError(
                f"producer {producer_id} has epoch {known.epoch}, but this marker has epoch "
                f"{producer_epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if coordinator_epoch < known.coordinator_epoch:
            raise ProtocolError(
                f"the coordinator of producer {producer_id} has epoch {known.coordinator_epoch}, "
                f"but this marker has epoch {coordinator_epoch}",
                code=ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )

    def in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has an open transaction in this epoch."""
        known = self.open.get(producer_id)
        return known is not None and known.epoch == producer_epoch

    def update(self, entry: EntryInfo, marker: Marker | None = None) -> int:
        """Record a stored batch, with its content if it is a marker.

        Returns:
            The first offset of the transaction that it ends, -1 if it ends none.
        """
        if entry.producer_id < 0:
            return -1
        known = self._producers.get(entry.producer_id)
        if known is None or entry.producer_epoch != known.epoch:
            first_of_txn = -1 if known is None else known.txn_first_offset
            coordinator = -1 if known is None else known.coordinator_epoch
            known = _Producer(
                entry.producer_epoch,
                txn_first_offset=first_of_txn,
                coordinator_epoch=coordinator,
            )
            self._producers[entry.producer_id] = known
            if first_of_txn >= 0:
                self.open[entry.producer_id] = known
        known.silent_since_ms = None
        known.timestamp = entry.max_timestamp
        known.last_offset = entry.last_offset
        if entry.is_control:
            ended, known.txn_first_offset = known.txn_first_offset, -1
            self.open.pop(entry.producer_id, None)
            if marker is not None:
                known.coordinator_epoch = marker.coordinator_epoch
            return ended
        if entry.is_transactional and known.txn_first_offset < 0:
            known.txn_first_offset = entry.base_offset
            self.open[entry.producer_id] = known
        if entry.base_sequence >= 0:
            known.batches.append(
                BatchMetadata(
                    entry.base_sequence,
                    _last_sequence(entry),
                    entry.base_offset,
                    entry.last_offset,
                    entry.max_timestamp,
                )
            )
        return -1

    def recall(self, recent: "ProducerState") -> None:
        """Add older batches, from the state after reading the log's last entries only.

        They belong to producers whose last batch this state already has.
        """
        for producer_id, known in self._producers.items():
            other = recent._producers.get(producer_id)
            if other is None or not known.batches or not other.batches:
                continue
            if other.epoch == known.epoch and other.batches[-1] == known.batches[-1]:
                known.batches = other.batches

    def last_records(self) -> dict[int, tuple[int, int | None]]:
        """Return each producer's epoch and the offset of its last data, None if it has none."""
        return {
            producer_id: (known.epoch, known.batches[-1].last_offset if known.batches else None)
            for producer_id, known in list(self._producers.items())
        }

    def expire(self, now_ms: int, keep_ms: int) -> None:
        """Drop the producers that were silent for longer than `keep_ms`.

        To be called periodically; a silence begins with the first call after the last batch.
        """
        for producer_id, known in list(self._producers.items()):
            if known.silent_since_ms is None:
                known.silent_since_ms = now_ms
            elif now_ms - known.silent_since_ms > keep_ms and known.txn_first_offset < 0:
                del self._producers[producer_id]

    def to_snapshot(self) -> bytes:
        """Return the content of a snapshot file."""
        body = bytearray(_COUNT.pack(len(self._producers)))
        for producer_id, known in self._producers.items():
            last = known.batches[-1] if known.batches else None
            body += _ENTRY.pack(
                producer_id,
                known.epoch,
                last.last_sequence if last else -1,
                last.last_offset if last else known.last_offset,
                last.last_offset - last.first_offset if last else 0,
                known.timestamp,
                known.coordinator_epoch,
                known.txn_first_offset,
            )
        return _HEAD.pack(_VERSION, crc32c(body)) + bytes(body)

    @classmethod
    def from_snapshot(cls, data: bytes) -> "ProducerState":
        """Decode the content of a snapshot file.

        Raises:
            ValueError: it is damaged or of another version.
        """
        if len(data) < _HEAD.size + _COUNT.size:
            raise ValueError("the snapshot is cut off")
        version, crc = _HEAD.unpack_from(data)
        if version != _VERSION or crc != crc32c(data[_HEAD.size :]):
            raise ValueError("the snapshot is damaged or of another version")
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
        start = _HEAD.size + _COUNT.size
        if count < 0 or len(data) != start + count * _ENTRY.size:
            raise ValueError("the length of the snapshot does not match its count")
        state = cls()
        for values in _ENTRY.iter_unpack(data[start:]):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator, first = values
            known = _Producer(epoch, deque(maxlen=REMEMBERED_BATCHES), timestamp, offset)
            known.coordinator_epoch, known.txn_first_offset = coordinator, first
            if sequence >= 0:
                first_sequence = (sequence - delta) % _SEQUENCES
                known.batches.append(
                    BatchMetadata(first_sequence, sequence, offset - delta, offset, timestamp)
                )
            state._producers[producer_id] = known
        begun = [pair for pair in state._producers.items() if pair[1].txn_first_offset >= 0]
        begun.sort(key=lambda pair: pair[1].txn_first_offset)
        state.open.update(begun)
        return state


def _last_sequence(entry: EntryInfo) -> int:
    return (entry.base_sequence + entry.last_offset - entry.base_offset) % _SEQUENCES


def snapshots(directory: Path) -> list[int]:
    """Return the offsets of a log's snapshot files, ascending."""
    found = (names.offset_of_file(path.name, names.SNAPSHOT) for path in directory.iterdir())
    return sorted(offset for offset in found if offset is not None)


def write_snapshot(fs: FileSystem, directory: Path, offset: int, state: ProducerState) -> None:
    """Write the state before an offset; a power cut may lose or tear it, as its CRC shows."""
    path = directory / names.file_name(offset, names.SNAPSHOT)
    fs.write_file(path, state.to_snapshot(), durable=False, whole=False)


def drop_snapshots(fs: FileSystem, directory: Path, *, below: int = -1, above: int = -1) -> None:
    """Remove snapshots below one offset and, if `above` is given, above another."""
    for offset in snapshots(directory):
        if offset < below or 0 <= above < offset:
            fs.unlink(directory / names.file_name(offset, names.SNAPSHOT))
