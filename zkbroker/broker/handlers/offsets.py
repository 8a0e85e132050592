"""OffsetCommit, TxnOffsetCommit and OffsetFetch.

Version 0 of OffsetCommit and OffsetFetch keeps offsets in ZooKeeper; all other requests use the
group's coordinator.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.handlers.produce import Verify
from zkbroker.broker.services import BrokerServices
from zkbroker.coordinator.groups import GroupCoordinator
from zkbroker.errors import (
    ErrorCode,
    InvalidTopic,
    NotEnoughReplicas,
    ProtocolError,
    RegistryError,
)
from zkbroker.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from zkbroker.protocol.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnPartitionError,
    TxnTopicErrors,
)
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC, OffsetValue
from zkbroker.registry.group_offsets import commit_offsets, read_offsets
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.registry.topics import assignment as read_assignment
from zkbroker.runtime import Park

logger = logging.getLogger(__name__)

Key = tuple[str, int]

_FROM_ZOOKEEPER = 0
_ERROR_FOR_ALL_SINCE = 2
_UNSET = -1
_LATEST_MS = 2**63 - 1


@dataclass(frozen=True, eq=False)
class OffsetsHandlers:
    """Handles OffsetCommit, TxnOffsetCommit and OffsetFetch.

    The coordinator has the groups whose partition is hosted here.
    """

    services: BrokerServices
    coordinator: GroupCoordinator
    verify: Verify

    # -- OffsetCommit

    def offset_commit(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> OffsetCommitResponse:
        """Commit offsets; each partition has its own result."""
        found: dict[Key, int] = {}
        good: dict[Key, OffsetCommitRequestPartition] = {}
        for topic in context.paced(request.topics):
            numbers = self._partitions(topic.topic)
            for partition in context.paced(topic.partitions):
                key = (topic.topic, partition.partition)
                found[key] = self._check(numbers, partition)
                if found[key] == ErrorCode.NONE:
                    good[key] = partition
        if context.api_version == _FROM_ZOOKEEPER:
            found.update(self._commit_to_zookeeper(request.group_id, good))
        else:
            error = self.coordinator.commit(
                request.group_id,
                request.member_id,
                request.generation_id,
                {key: self._value(request, each) for key, each in good.items()},
                context.park,
            )
            found.update(dict.fromkeys(good, error))
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.topic,
                    [
                        OffsetCommitResponsePartition(
                            each.partition, found[topic.topic, each.partition]
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def txn_offset_commit(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> TxnOffsetCommitResponse:
        """Commit offsets that take effect once the producer's transaction is committed."""
        found: dict[Key, int] = {}
        good: dict[Key, OffsetValue] = {}
        now_ms = self.services.runtime.now_ms()
        for topic in request.topics:
            numbers = self._partitions(topic.topic)
            for partition in context.paced(topic.partitions):
                key = (topic.topic, partition.partition)
                found[key] = self._check(numbers, partition)
                if found[key] == ErrorCode.NONE:
                    good[key] = OffsetValue(
                        offset=partition.offset,
                        leader_epoch=partition.leader_epoch,
                        metadata=partition.metadata or "",
                        commit_timestamp_ms=now_ms,
                        expire_timestamp_ms=_UNSET,
                    )
        error = self.coordinator.commit_transactional(
            request.group_id,
            (request.producer_id, request.producer_epoch),
            good,
            lambda number: self._verified(request, number, context.park),
            context.park,
        )
        found.update(dict.fromkeys(good, error))
        return TxnOffsetCommitResponse(
            topics=[
                TxnTopicErrors(
                    topic.topic,
                    [
                        TxnPartitionError(each.partition, found[topic.topic, each.partition])
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _verified(self, request: TxnOffsetCommitRequest, number: int, park: Park) -> ErrorCode:
        """Ask whether a partition of `__consumer_offsets` is part of the transaction."""
        try:
            self.verify(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                ((OFFSETS_TOPIC, number),),
                park,
            )
        except NotEnoughReplicas as error:
            logger.info("transactional commit not verified error=%s", error)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE  # the client retries
        except ProtocolError as error:
            logger.info("transactional commit refused error=%s", error)
            return error.code
        return ErrorCode.NONE

    def _check(
        self,
        numbers: Collection[int],
        partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    ) -> ErrorCode:
        if partition.partition not in numbers:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # Genuine brokers also count characters, despite the setting's name.
        if len(partition.metadata or "") > self.services.config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _partitions(self, topic: str) -> Collection[int]:
        """The partitions of a topic, none if it does not exist."""
        view = self.services.view
        assignment = view.assignment(topic)
        if assignment is None and topic not in view.topics.deleting:
            # Another broker may know of a new topic before this one: read ZooKeeper.
            try:
                check_topic_name(topic)
                assignment = read_assignment(self.services.session, topic)
            except (InvalidTopic, RegistryError) as error:
                logger.info("commit for unknown topic=%s error=%s", topic, error)
        return assignment or ()

    def _value(
        self, request: OffsetCommitRequest, partition: OffsetCommitRequestPartition
    ) -> OffsetValue:
        now_ms = self.services.runtime.now_ms()
        retention_ms = request.retention_time_ms
        return OffsetValue(
            offset=partition.offset,
            leader_epoch=partition.leader_epoch,
            metadata=partition.metadata or "",
            commit_timestamp_ms=now_ms if partition.timestamp == _UNSET else partition.timestamp,
            expire_timestamp_ms=(
                _UNSET if retention_ms < 0 else min(now_ms + retention_ms, _LATEST_MS)
            ),
        )

    def _commit_to_zookeeper(
        self, group: str, offsets: Mapping[Key, OffsetCommitRequestPartition]
    ) -> dict[Key, int]:
        if not _can_be_node(group):
            return dict.fromkeys(offsets, ErrorCode.INVALID_GROUP_ID)
        answers = commit_offsets(
            self.services.session,
            group,
            {key: (partition.offset, None) for key, partition in offsets.items()},
        )
        return {
            key: error_code(answer) if isinstance(answer, Exception) else ErrorCode.NONE
            for key, answer in answers.items()
        }

    # -- OffsetFetch

    def offset_fetch(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> OffsetFetchResponse:
        """Return committed offsets; -1 if there is none."""
        if context.api_version == _FROM_ZOOKEEPER:
            return self._fetch_from_zookeeper(request.group_id, request.topics or [])
        error, offsets = self.coordinator.offsets(request.group_id)
        if error is not ErrorCode.NONE:
            if context.api_version >= _ERROR_FOR_ALL_SINCE:
                return OffsetFetchResponse(error_code=error)
            return _failed(request.topics or [], error)
        topics = request.topics
        if topics is None:
            topics = _all_of(offsets)
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    topic.topic,
                    [
                        _answer_of(number, offsets.get((topic.topic, number)))
                        for number in context.paced(topic.partitions)
                    ],
                )
                for topic in context.paced(topics)
            ]
        )

    def _fetch_from_zookeeper(
        self, group: str, topics: list[OffsetFetchRequestTopic]
    ) -> OffsetFetchResponse:
        try:
            if not _can_be_node(group):
                raise ProtocolError(code=ErrorCode.INVALID_GROUP_ID)
            names = dict.fromkeys(each.topic for each in topics if each.partitions)
            known = {name: self._partitions(name) for name in names}
            keys: list[Key] = [
                (each.topic, number)
                for each in topics
                for number in each.partitions
                if number in known[each.topic]
            ]
            found = read_offsets(self.services.session, group, keys)
        except ProtocolError as error:
            return _failed(topics, error.code)

        def answer(key: Key) -> OffsetFetchResponsePartition:
            if key in found:
                return OffsetFetchResponsePartition(partition=key[1], offset=found[key][0])
            return OffsetFetchResponsePartition(
                partition=key[1], error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )

        return _answered(topics, answer)


def _can_be_node(group: str) -> bool:
    """Whether a group's name can be the name of a node: no path, only printable characters."""
    return group not in ("", ".", "..") and "/" not in group and group.isprintable()


def _answer_of(number: int, value: OffsetValue | None) -> OffsetFetchResponsePartition:
    if value is None:
        return OffsetFetchResponsePartition(partition=number)
    return OffsetFetchResponsePartition(
        partition=number,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _failed(topics: list[OffsetFetchRequestTopic], error: ErrorCode) -> OffsetFetchResponse:
    return _answered(
        topics, lambda key: OffsetFetchResponsePartition(partition=key[1], error_code=error)
    )


def _answered(
    topics: list[OffsetFetchRequestTopic], answer: Callable[[Key], OffsetFetchResponsePartition]
) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.topic, [answer((topic.topic, number)) for number in topic.partitions]
            )
            for topic in topics
        ]
    )


def _all_of(offsets: Mapping[Key, OffsetValue]) -> list[OffsetFetchRequestTopic]:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(offsets):
        topics.setdefault(topic, []).append(number)
    return [OffsetFetchRequestTopic(topic, numbers) for topic, numbers in topics.items()]
