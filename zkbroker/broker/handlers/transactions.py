"""The transaction APIs: requests of producers to their coordinator, and between brokers."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.pacing import paced
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.coordinator.groups import GroupCoordinator
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.coordinator.transactions import TransactionCoordinator
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    VerifyTransactionRequest,
    VerifyTransactionResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zkbroker.protocol.messages.transactions import (
    TxnPartitionError,
    TxnTopicErrors,
    TxnTopicPartitions,
)
from zkbroker.protocol.messages.verify_transaction import VerificationResult
from zkbroker.protocol.messages.write_txn_markers import TxnMarker, TxnMarkerResult
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS, OFFSETS_TOPIC
from zkbroker.registry.producer_ids import ProducerIds
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.runtime import Park, finish_anyway, unparked
from zkbroker.zookeeper import ConnectionLost, SessionLost

logger = logging.getLogger(__name__)

Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class TransactionHandlers:
    """Handles InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and VerifyTransaction.

    The coordinator has the transactional ids whose partition is led here; `producer_ids` are for
    producers without such an id.
    """

    services: BrokerServices
    coordinator: TransactionCoordinator
    producer_ids: ProducerIds

    def init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        """Assign a producer its id: ids are unique in the cluster, and claimed in blocks.

        While ZooKeeper does not answer and the claimed ids are used up, the error is 14, as in
        genuine brokers that wait for a block (ProducerIdManager): all producers retry after it, and
        many take 7 here as final.
        """
        try:
            return self._init_producer_id(request, context)
        except (ConnectionLost, SessionLost) as error:
            logger.warning("no producer id, clients will retry: %s", error)
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        if request.transactional_id is None:
            with context.park(finish_anyway):
                new_id = self.producer_ids.next_id()
            return InitProducerIdResponse(producer_id=new_id, producer_epoch=0)
        found = self.coordinator.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, context.park
        )
        return InitProducerIdResponse(
            error_code=found.error,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
        )

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse:
        """Add partitions to a transaction, all of them or none."""
        wanted = _keys(request.topics)
        codes = {key: self._check(key) for key in context.paced(wanted)}
        if any(codes.values()):
            for key, code in codes.items():
                codes[key] = code or ErrorCode.OPERATION_NOT_ATTEMPTED
        else:
            error = self.coordinator.add_partitions(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                wanted,
                context.park,
            )
            codes = dict.fromkeys(wanted, error)
        return AddPartitionsToTxnResponse(
            topics=[_errors(topic, codes) for topic in request.topics]
        )

    def _check(self, key: Key) -> ErrorCode:
        topic, number = key
        if topic in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if number not in (self.services.view.assignment(topic) or ()):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, context: RequestContext
    ) -> AddOffsetsToTxnResponse:
        """Add the partition of `__consumer_offsets` that holds a group to a transaction."""
        services = self.services
        count = services.partition_count(OFFSETS_TOPIC, services.config.offsets_topic_partitions)
        number = key_partition(request.group_id, count)
        error = self.coordinator.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, number)],
            context.park,
        )
        return AddOffsetsToTxnResponse(error_code=error)

    def end(self, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
        """Commit or abort a transaction."""
        error = self.coordinator.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            commit=request.committed,
            park=context.park,
        )
        return EndTxnResponse(error_code=error)

    def verify(
        self, request: VerifyTransactionRequest, context: RequestContext
    ) -> VerifyTransactionResponse:
        """Return for each transaction whether messages of it may be written."""
        return VerifyTransactionResponse(
            results=[
                VerificationResult(
                    asked.transactional_id,
                    self.coordinator.verify(
                        asked.transactional_id,
                        asked.producer_id,
                        asked.producer_epoch,
                        _keys(asked.topics),
                    ),
                )
                for asked in context.paced(request.transactions)
            ]
        )


@dataclass(frozen=True, eq=False)
class MarkerHandler:
    """Handles WriteTxnMarkers: appends markers, and waits `timeout_s` for the replicas in sync.

    `groups` gets the markers in `__consumer_offsets`.
    """

    services: BrokerServices
    groups: GroupCoordinator
    timeout_s: float

    def __call__(
        self, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> WriteTxnMarkersResponse:
        return self.write(request, context.park)

    def write(
        self, request: WriteTxnMarkersRequest, park: Park = unparked
    ) -> WriteTxnMarkersResponse:
        """Write markers for another broker, or for this one's own coordinator."""
        codes: list[dict[Key, ErrorCode]] = [{} for _ in request.markers]
        written: list[tuple[int, TxnMarker, Key, Unacknowledged]] = []
        last: dict[Key, Unacknowledged] = {}
        patience = Patience()
        for at, marker, key in paced(list(_wanted(request.markers))):
            try:
                leadership = self.services.leadership(*key, patience, during_deletion=True)
                result = leadership.end_transaction(
                    marker.producer_id,
                    marker.producer_epoch,
                    commit=marker.committed,
                    coordinator_epoch=marker.coordinator_epoch,
                )
            except ZkbrokerError as error:
                codes[at][key] = error_code(error)
            else:
                appended = Unacknowledged(leadership, result.last_offset)
                written.append((at, marker, key, appended))
                last[key] = appended
        # Once the last marker of a partition is replicated and flushed, so are all before it.
        results = wait_for_acks(
            list(last.values()),
            -1,
            self.timeout_s,
            runtime=self.services.runtime,
            park=park,
        )
        failures = dict(zip(last, results, strict=True))
        for at, marker, key, appended in paced(written):
            failure = failures[key] or _lost(appended)
            codes[at][key] = ErrorCode.NONE if failure is None else error_code(failure)
            if failure is None and key[0] == OFFSETS_TOPIC:
                self.groups.end_transaction(
                    key[1], marker.producer_id, appended.last_offset, commit=marker.committed
                )
        return WriteTxnMarkersResponse(
            [
                TxnMarkerResult(
                    marker.producer_id, [_errors(topic, found) for topic in marker.topics]
                )
                for marker, found in paced(list(zip(request.markers, codes, strict=True)))
            ]
        )


def _keys(topics: Sequence[TxnTopicPartitions]) -> list[Key]:
    return [(topic.topic, number) for topic in topics for number in topic.partitions]


def _errors(topic: TxnTopicPartitions, codes: Mapping[Key, ErrorCode]) -> TxnTopicErrors:
    return TxnTopicErrors(
        topic.topic,
        [TxnPartitionError(number, codes[topic.topic, number]) for number in topic.partitions],
    )


def _lost(appended: Unacknowledged) -> ZkbrokerError | None:
    """Return the error of a marker that was lost although a later one of its partition was not."""
    try:
        appended.leadership.replicated(appended.last_offset)
    except ZkbrokerError as error:
        # Another broker led between the two appends.
        return error
    return None


def _wanted(markers: Sequence[TxnMarker]) -> Iterator[tuple[int, TxnMarker, Key]]:
    for at, marker in enumerate(markers):
        for key in _keys(marker.topics):
            yield at, marker, key
