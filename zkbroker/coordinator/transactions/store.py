"""The transactional ids of one partition of `__transaction_state`.

    one batch with one record for each transition: magic 2, not compressed, without a producer id
    key: the transactional id   value: its whole state, null when it is forgotten

Invariant: `write` returns when the record is on every replica in sync. After any other outcome
the record may or may not be in the log, and no request may act on it.
"""

import logging
from collections.abc import Callable

from zkbroker.coordinator.stored_log import PartitionLog, read_all
from zkbroker.coordinator.transactions.transaction import TransactionMetadata
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.transaction_topic import (
    TRANSACTION_TOPIC,
    decode_transaction,
    decode_transaction_key,
    encode_transaction,
    encode_transaction_key,
)
from zkbroker.records import encode_message_set
from zkbroker.runtime import Park, unparked

logger = logging.getLogger(__name__)

_LOAD_BYTES = 128 * 1024


class TransactionStore:
    """Reads and writes one partition.

    Args:
        log: the partition; only this object appends to it.
        wait_s: how long a record may take to be on every replica in sync.
    """

    def __init__(self, log: PartitionLog, wait_s: float) -> None:
        self._log = log
        self._wait_s = wait_s

    def load(self, pause: Callable[[], None] = lambda: None) -> dict[str, TransactionMetadata]:
        """Read the partition from its start; the last record of each id wins.

        Raises:
            StorageError: it cannot be read, or a record of an id cannot be decoded.
        """
        found: dict[str, TransactionMetadata] = {}
        for _, read in read_all(self._log, _LOAD_BYTES, pause):
            for key, value in zip(read.keys, read.values, strict=True):
                self._take(found, key, value)
        return found

    @staticmethod
    def _take(
        found: dict[str, TransactionMetadata], key: bytes | None, value: bytes | None
    ) -> None:
        try:
            transactional_id = decode_transaction_key(key or b"")
            if transactional_id is None:
                return  # of a later version than this one
            if value is None:
                found.pop(transactional_id, None)
            else:
                stored = decode_transaction(value)
                found[transactional_id] = TransactionMetadata.from_value(stored)
        except MalformedFrame as error:
            logger.warning(
                "record skipped topic=%s key=%r reason=%s", TRANSACTION_TOPIC, key, error
            )

    def write(
        self,
        transactional_id: str,
        metadata: TransactionMetadata | None,
        now_ms: int,
        park: Park = unparked,
    ) -> None:
        """Write the new state of an id, None to forget it, and wait for the replicas.

        Raises:
            ProtocolError, StorageError, RequestTimedOut: the record was not written, or may not
                have been.
        """
        key = encode_transaction_key(transactional_id)
        value = None if metadata is None else encode_transaction(metadata.to_value())
        data = encode_message_set([(key, value, now_ms, ())])
        result = self._log.append(bytearray(data), now_ms=now_ms)
        self._log.wait_durable(result.last_offset, self._wait_s, park)

    def wait_replicated(self) -> None:
        """Wait until everything in the log is on every replica in sync.

        Raises:
            ProtocolError, StorageError, RequestTimedOut: it is not, or this is unknown.
        """
        end = self._log.log_end_offset
        if end > self._log.log_start_offset:
            self._log.wait_durable(end - 1, self._wait_s)
