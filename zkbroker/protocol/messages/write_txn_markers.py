"""WriteTxnMarkers (27): a transaction coordinator asks partition leaders to end a transaction.

Only brokers send it. The leader appends one control batch for each producer and partition.
"""

from zkbroker.protocol.messages.transactions import TxnTopicErrors, TxnTopicPartitions
from zkbroker.protocol.schema import Request, array, boolean, int16, int32, int64, wire_message


@wire_message
class TxnMarker:
    """The end of one transaction.

    Args:
        committed: True for COMMIT, False for ABORT.
        coordinator_epoch: leader epoch of the coordinator's partition of `__transaction_state`.
    """

    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    committed: bool = boolean()
    topics: list[TxnTopicPartitions] = array(TxnTopicPartitions)
    coordinator_epoch: int = int32()


@wire_message
class WriteTxnMarkersRequest(Request):
    markers: list[TxnMarker] = array(TxnMarker)


@wire_message
class TxnMarkerResult:
    producer_id: int = int64(default=-1)
    topics: list[TxnTopicErrors] = array(TxnTopicErrors)


@wire_message
class WriteTxnMarkersResponse:
    """This response has no throttle time."""

    markers: list[TxnMarkerResult] = array(TxnMarkerResult)
