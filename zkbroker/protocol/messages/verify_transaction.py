"""VerifyTransaction (10001): a partition's leader asks whether a transaction is ongoing.

Only zkbroker brokers send it to each other; ApiVersions does not list it. Genuine brokers ask the
same since 3.6, with a later version of AddPartitionsToTxn.
"""

from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.schema import Request, array, int16, int32, int64, string, wire_message


@wire_message
class VerifiedTransaction:
    """A transaction, and the partitions to which its messages are to be written."""

    transactional_id: str = string()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    topics: list[TxnTopicPartitions] = array(TxnTopicPartitions)


@wire_message
class VerifyTransactionRequest(Request):
    transactions: list[VerifiedTransaction] = array(VerifiedTransaction)


@wire_message
class VerificationResult:
    transactional_id: str = string()
    error_code: int = int16()


@wire_message
class VerifyTransactionResponse:
    """One result for each transaction, in the order of the request."""

    throttle_time_ms: int = int32()
    results: list[VerificationResult] = array(VerificationResult)
