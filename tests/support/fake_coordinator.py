"""Fake brokers that also coordinate transactions, by the rules of genuine ones.

`coordinator` is the broker that answers for all transactional ids and groups; others answer
NOT_COORDINATOR. `asked` has the names of the APIs in the order of the requests; faults are those
of `FakeCluster`.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_broker import FakeBroker, FakeCluster
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    FindCoordinatorResponse,
    InitProducerIdResponse,
    TxnOffsetCommitResponse,
)
from zkbroker.protocol.messages.transactions import TxnPartitionError, TxnTopicErrors


@dataclass
class FakeTransaction:
    producer_id: int
    epoch: int = -1
    open: bool = False
    partitions: set[tuple[str, int]] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    ends: list[bool] = field(default_factory=list)
    """How each transaction ended: True where it was committed."""


class CoordinatedCluster(FakeCluster):
    """A `FakeCluster` with transactions, with one coordinator, which a test may move."""

    def __init__(self, brokers: int = 1) -> None:
        super().__init__(brokers)
        self.coordinator = 0
        self.transactions: dict[str, FakeTransaction] = {}
        self.offsets: dict[tuple[str, str, int], int] = {}
        """Group, topic and partition: committed."""
        self.pending: dict[tuple[str, str, int], int] = {}
        self.asked: list[str] = []
        self.stray: list[tuple[str, int]] = []
        """Partitions with messages that were not added to the transaction."""

    def answer(self, broker: FakeBroker, key: ApiKey, version: int, request: Any) -> Any:
        if key not in (ApiKey.API_VERSIONS, ApiKey.METADATA):
            self.asked.append(key.name)
        return super().answer(broker, key, version, request)

    def _find_coordinator(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        if code is not None:
            return FindCoordinatorResponse(error_code=code)
        found = self.brokers[self.coordinator]
        return FindCoordinatorResponse(node_id=found.id, host="127.0.0.1", port=found.port)

    def _judge(
        self, broker: FakeBroker, request: Any, code: ErrorCode | None
    ) -> tuple[ErrorCode, FakeTransaction]:
        found = self.transactions.get(request.transactional_id)
        if found is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, FakeTransaction(-1)
        if code is not None:
            return code, found
        if broker.id != self.coordinator:
            return ErrorCode.NOT_COORDINATOR, found
        if request.producer_id != found.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, found
        if request.producer_epoch != found.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, found
        return ErrorCode.NONE, found

    def _init_producer_id(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        if code is not None or request.transactional_id is None:
            return super()._init_producer_id(broker, request, code)
        if broker.id != self.coordinator:
            return InitProducerIdResponse(error_code=ErrorCode.NOT_COORDINATOR)
        name = request.transactional_id
        if name not in self.transactions:
            self.next_producer_id += 1
            self.transactions[name] = FakeTransaction(self.next_producer_id)
        found = self.transactions[name]
        found.epoch += 1
        if found.open:
            self._ended(found, commit=False)
            return InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
        return InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def _add_partitions_to_txn(
        self, broker: FakeBroker, request: Any, code: ErrorCode | None
    ) -> Any:
        code, found = self._judge(broker, request, code)
        if not code:
            found.open = True
            found.partitions.update(
                (topic.topic, number) for topic in request.topics for number in topic.partitions
            )
        return AddPartitionsToTxnResponse(
            topics=[
                TxnTopicErrors(
                    topic.topic, [TxnPartitionError(number, code) for number in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _add_offsets_to_txn(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        code, found = self._judge(broker, request, code)
        if not code:
            found.open = True
            found.groups.add(request.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def _txn_offset_commit(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        code = code or ErrorCode.NONE
        if not code:
            for topic in request.topics:
                for each in topic.partitions:
                    self.pending[request.group_id, topic.topic, each.partition] = each.offset
        return TxnOffsetCommitResponse(
            topics=[
                TxnTopicErrors(
                    topic.topic,
                    [TxnPartitionError(each.partition, code) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _end_txn(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        code, found = self._judge(broker, request, code)
        if not code and found.open:
            self._ended(found, commit=request.committed)
        elif not code and found.ends[-1:] != [request.committed]:
            code = ErrorCode.INVALID_TXN_STATE
        return EndTxnResponse(error_code=code)

    def _ended(self, found: FakeTransaction, *, commit: bool) -> None:
        found.ends.append(commit)
        found.open = False
        found.partitions, found.groups = set(), set()
        pending, self.pending = self.pending, {}
        if commit:
            self.offsets |= pending

    def _produce(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        name = request.transactional_id
        if name is not None:
            for topic in request.topics:
                for each in topic.partitions:
                    if (topic.topic, each.partition) not in self.transactions[name].partitions:
                        self.stray.append((topic.topic, each.partition))
        return super()._produce(broker, request, code)
