"""Requests of a producer to the coordinators of its transactions, and the meaning of errors.

    passes     not here, loading, out of reach, previous transaction not ended      → asked again
    abortable  not allowed for a topic or a group, unknown topic, bad offsets       → abort()
    fatal      replaced by another producer, unknown identity, anything else        → a new producer

Invariant: a request without an answer is sent again, to the coordinator of that time; all of them
may be repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zkbroker.client import Cluster
from zkbroker.client.coordinator import RETRIED, CoordinatorConnection
from zkbroker.client.group_offsets import Committed
from zkbroker.client.list_offsets import by_topic
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ErrorCode, ProtocolError, UnsupportedVersion, protocol_error
from zkbroker.producer.errors import (
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
    TransactionFatal,
)
from zkbroker.producer.transaction_state import ProducerTransactionState
from zkbroker.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from zkbroker.protocol.messages.membership import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from zkbroker.protocol.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnTopicPartitions,
)
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

_LANE = "transactions"
_RETRIED = frozenset({*RETRIED, ErrorCode.CONCURRENT_TRANSACTIONS})
# A broker may not know a topic yet that another one knows.
_RETRIED_WITH_TOPICS = _RETRIED | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
_PRODUCER_FENCED = 90  # later brokers answer it instead of 47
FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, _PRODUCER_FENCED})
"""The codes after another producer took over."""
_ABORTABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)

Stopping = Callable[[], bool]


class TransactionRequests:
    """Sends requests for the transactional id of a configuration."""

    def __init__(
        self,
        config: ProducerConfig,
        cluster: Cluster,
        runtime: Runtime,
        state: ProducerTransactionState,
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._runtime = runtime
        self._state = state
        self._id = config.transactional_id
        self._coordinator = self._connection_to(self._id, TRANSACTION_COORDINATOR)
        # Coordinator of the group whose offsets were committed last; usually there is only one.
        self._group: tuple[str, CoordinatorConnection] | None = None

    def init_producer_id(self, timeout_s: float) -> tuple[int, int]:
        """Return producer id and epoch; an open transaction of the transactional id is ended.

        Raises:
            TransactionFatal: refused.
            ProtocolError: no coordinator could be reached in time.
        """
        response = self._ask(
            "begin",
            InitProducerIdRequest(self._id, self._config.transaction_timeout_ms),
            _code,
            timeout_s,
        )
        return response.producer_id, response.producer_epoch

    def add_partitions(
        self, partitions: Iterable[PartitionKey], timeout_s: float, stopping: Stopping
    ) -> None:
        """Add partitions to the transaction.

        Raises:
            TransactionError: refused.
            ProtocolError: the coordinator could not be found or reached; it is not known whether
                it added them.
        """
        by_name: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_name.setdefault(topic, []).append(number)
        self._ask(
            "add partitions to the transaction",
            AddPartitionsToTxnRequest(
                self._id,
                *self._identity,
                [TxnTopicPartitions(topic, numbers) for topic, numbers in by_name.items()],
            ),
            _worst,
            timeout_s,
            stopping,
            _RETRIED_WITH_TOPICS,
        )

    def add_offsets(self, group: str, timeout_s: float) -> None:
        """Add the offsets of a group to the transaction; raises as `add_partitions`."""
        self._ask(
            f"add offsets of group {group} to the transaction",
            AddOffsetsToTxnRequest(self._id, *self._identity, group),
            _code,
            timeout_s,
        )

    def commit_offsets(
        self, group: str, offsets: Mapping[PartitionKey, Committed], timeout_s: float
    ) -> None:
        """Send offsets to the group's coordinator; they count once the transaction is committed.

        Raises:
            TransactionError: refused.
            ProtocolError: the group's coordinator could not be reached in time.
        """
        topics = [
            TxnOffsetCommitRequestTopic(
                topic,
                [
                    TxnOffsetCommitRequestPartition(
                        partition=number, offset=each.offset, metadata=each.metadata
                    )
                    for number, each in numbers
                ],
            )
            for topic, numbers in by_topic(offsets)
        ]
        self._ask(
            f"commit offsets of group {group} in the transaction",
            TxnOffsetCommitRequest(self._id, group, *self._identity, topics),
            _worst,
            timeout_s,
            retried=_RETRIED_WITH_TOPICS,
            coordinator=self._group_coordinator(group),
        )

    def end(self, *, commit: bool, timeout_s: float) -> None:
        """Commit or abort.

        Raises:
            TransactionFatal: refused.
            ProtocolError: no answer in time; it is not known whether the transaction ended.
        """

        def code_of(response: Any) -> int:
            code = _code(response)
            # Adding partitions failed: the coordinator may know no transaction to end.
            nothing_open = code == ErrorCode.INVALID_TXN_STATE and not commit
            return 0 if nothing_open and not self._state.start_known else code

        self._ask(
            "commit the transaction" if commit else "abort the transaction",
            EndTxnRequest(self._id, *self._identity, commit),
            code_of,
            timeout_s,
        )

    @property
    def _identity(self) -> tuple[int, int]:
        return self._state.producer_id, self._state.producer_epoch

    def _group_coordinator(self, group: str) -> CoordinatorConnection:
        if self._group is None or self._group[0] != group:
            self._group = group, self._connection_to(group, GROUP_COORDINATOR)
        return self._group[1]

    def _connection_to(self, key: str, key_type: int) -> CoordinatorConnection:
        return CoordinatorConnection(
            self._cluster,
            key,
            runtime=self._runtime,
            backoff_ms=self._config.retry_backoff_ms,
            lane=_LANE,
            key_type=key_type,
            attempt_timeout_ms=self._config.request_timeout_ms,
        )

    def _ask(
        self,
        what: str,
        request: Any,
        code_of: Callable[[Any], int],
        timeout_s: float,
        stopping: Stopping = lambda: False,
        retried: frozenset[ErrorCode] = _RETRIED,
        coordinator: CoordinatorConnection | None = None,
    ) -> Any:
        try:
            response = (coordinator or self._coordinator).ask(
                request,
                timeout_s=timeout_s,
                error_of=code_of,
                stopping=stopping,
                retried=retried,
            )
        except UnsupportedVersion as error:
            raise TransactionFatal(f"{self._about(what)}: {error}") from error
        except ProtocolError as error:
            if error.code in retried or error.code.retriable:
                raise
            raise self.refusal(what, error.code, error) from error
        code = code_of(response)
        if code:
            raise self.refusal(what, code, protocol_error(code))
        return response

    def refusal(self, what: str, code: int, error: BaseException) -> TransactionError:
        """Return the exception for an error that does not pass.

        Args:
            what: the request, as a verb.
            code: of the error.
            error: for the text.
        """
        where = self._about(what)
        if code in FENCED:
            return ProducerFenced(
                f"{where}: another producer began under this id, or the transaction was open for "
                f"longer than transaction.timeout.ms={self._config.transaction_timeout_ms}: {error}"
            )
        if code in _ABORTABLE:
            return TransactionAbortable(f"{where}: {error}")
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return TransactionFatal(
                f"{where}: transaction.timeout.ms={self._config.transaction_timeout_ms} is more "
                "than the brokers' transaction.max.timeout.ms: lower the one or raise the other: "
                f"{error}"
            )
        return TransactionFatal(
            f"{where}: {error}; make a new producer, which aborts the transaction"
        )

    def _about(self, what: str) -> str:
        return f"transactional.id={self._id}: cannot {what}"


def _code(response: Any) -> int:
    code: int = response.error_code
    return code


def _worst(response: AddPartitionsToTxnResponse | TxnOffsetCommitResponse) -> int:
    """Return the error that decides where partitions have different ones."""
    codes = {part.error_code for topic in response.topics for part in topic.partitions} - {0}

    def weight(code: int) -> int:
        if code == ErrorCode.OPERATION_NOT_ATTEMPTED:
            return 3  # because of another partition
        if code in _RETRIED_WITH_TOPICS:
            return 2
        return 1 if code in _ABORTABLE else 0

    return min(codes, key=weight, default=0)
