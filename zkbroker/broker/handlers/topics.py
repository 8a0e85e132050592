"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords.

Invariant: a failure of one item sets only that item's error. The answer waits, up to the request's
time-out, until this broker's view shows the changes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code, set_error
from zkbroker.broker.handlers.configs import given_settings
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.errors import ErrorCode, InvalidTopic, ProtocolError, ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS
from zkbroker.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from zkbroker.protocol.messages.topics import (
    CreatedPartitions,
    CreatedTopic,
    DeletedTopic,
    DeleteRecordsRequestPartition,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
    NewPartitions,
    NewTopic,
)
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.registry import paths
from zkbroker.replica.acknowledgement import wait_for_log_starts
from zkbroker.replica.leadership import Leadership

_SAYS_LOG_START_SINCE = 5
"""Version of Fetch in which a follower tells where its log begins."""

_DELETION_DISABLED_SINCE = 3
"""Version of DeleteTopics whose clients know error 73."""

Answer = TypeVar("Answer", CreatedTopic, DeletedTopic, CreatedPartitions)


class TopicsHandlers:
    """Handles the APIs that change topics."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def create_topics(
        self, request: CreateTopicsRequest, context: RequestContext
    ) -> CreateTopicsResponse:
        answers, created = _each_once(request, CreatedTopic, self._create, context)
        view = self._services.view
        self._wait(context, request.timeout_ms, created, lambda answer: view.led(answer.topic))
        return CreateTopicsResponse(topics=answers)

    def delete_topics(
        self, request: DeleteTopicsRequest, context: RequestContext
    ) -> DeleteTopicsResponse:
        answers: list[DeletedTopic] = []
        deleted: list[DeletedTopic] = []
        for name in context.paced(dict.fromkeys(request.topics)):
            answer = DeletedTopic(name)
            answers.append(answer)
            try:
                self._services.topics.delete(name)
                deleted.append(answer)
            except ZkbrokerError as error:
                code = error_code(error)
                if (
                    code is ErrorCode.TOPIC_DELETION_DISABLED
                    and context.api_version < _DELETION_DISABLED_SINCE
                ):
                    code = ErrorCode.INVALID_REQUEST
                answer.error_code = code
        view = self._services.view
        self._wait(
            context,
            request.timeout_ms,
            deleted,
            lambda answer: answer.topic not in view.topics.assignments,
        )
        return DeleteTopicsResponse(topics=answers)

    def create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        answers, grown = _each_once(request, CreatedPartitions, self._grow, context)
        totals = {topic.topic: topic.count for topic in request.topics}
        view = self._services.view

        def has_grown(answer: CreatedPartitions) -> bool:
            assignment = view.assignment(answer.topic)
            return (
                assignment is not None
                and len(assignment) >= totals[answer.topic]
                and view.led(answer.topic)
            )

        self._wait(context, request.timeout_ms, grown, has_grown)
        return CreatePartitionsResponse(topics=answers)

    def delete_records(
        self, request: DeleteRecordsRequest, context: RequestContext
    ) -> DeleteRecordsResponse:
        """Delete on the leader, and wait until the followers have deleted as well."""
        waiting: list[tuple[DeleteRecordsResponsePartition, Leadership, int]] = []
        patience = Patience()
        topics = [
            DeleteRecordsResponseTopic(
                topic.topic,
                [
                    self._delete_records(topic.topic, partition, patience, waiting)
                    for partition in context.paced(topic.partitions)
                ],
            )
            for topic in context.paced(request.topics)
        ]
        services = self._services
        marks = wait_for_log_starts(
            [(partition, start) for _, partition, start in waiting],
            max(0, request.timeout_ms) / 1000,
            lambda: services.view.brokers if self._followers_tell_starts else (),
            runtime=services.runtime,
            park=context.park,
        )
        for (answer, _, start), mark in zip(waiting, marks, strict=True):
            if isinstance(mark, ZkbrokerError):
                answer.error_code = error_code(mark)
                continue
            answer.low_watermark = mark
            if mark < start:
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return DeleteRecordsResponse(topics=topics)

    @property
    def _followers_tell_starts(self) -> bool:
        """Whether followers of this `inter.broker.protocol.version` tell where their logs begin."""
        level = self._services.config.inter_broker_protocol
        return INTER_BROKER_VERSIONS[level][ApiKey.FETCH] >= _SAYS_LOG_START_SINCE

    def _create(self, topic: NewTopic, validate_only: bool) -> None:
        settings = given_settings(topic.configs)
        assignment = {item.partition: tuple(item.broker_ids) for item in topic.assignments}
        if len(assignment) != len(topic.assignments):
            raise ProtocolError(
                "A partition is assigned twice.", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT
            )
        self._services.topics.create(
            topic.topic,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment=assignment or None,
            settings=settings,
            validate_only=validate_only,
        )

    def _grow(self, topic: NewPartitions, validate_only: bool) -> None:
        given = topic.assignments
        if topic.topic in self._services.view.topics.deleting:
            raise InvalidTopic("The topic is queued for deletion.")
        if self._services.session.exists(paths.REASSIGN_PARTITIONS) is not None:
            # New partitions get as many replicas as the first one, which may now have old and new.
            raise ProtocolError(
                "A partition reassignment is in progress.",
                code=ErrorCode.REASSIGNMENT_IN_PROGRESS,
            )
        self._services.topics.add_partitions(
            topic.topic,
            topic.count,
            None if given is None else [tuple(item.broker_ids) for item in given],
            validate_only=validate_only,
        )

    def _delete_records(
        self,
        topic: str,
        partition: DeleteRecordsRequestPartition,
        patience: Patience,
        waiting: list[tuple[DeleteRecordsResponsePartition, Leadership, int]],
    ) -> DeleteRecordsResponsePartition:
        answer = DeleteRecordsResponsePartition(partition=partition.partition, low_watermark=-1)
        try:
            if topic in INTERNAL_TOPICS:
                raise InvalidTopic(f"{topic} is internal")
            leadership = self._services.leadership(topic, partition.partition, patience)
            start = leadership.delete_records_before(partition.offset)
            waiting.append((answer, leadership, start))
        except ZkbrokerError as error:
            answer.error_code = error_code(error)
        return answer

    def _wait(
        self,
        context: RequestContext,
        timeout_ms: int,
        answers: list[Answer],
        arrived: Callable[[Answer], bool],
    ) -> None:
        if not answers:
            return
        view = self._services.view
        with context.park(view.notify):
            view.wait_for(
                lambda: all(map(arrived, answers)) or self._services.draining or context.peer_gone,
                max(0, timeout_ms) / 1000,
            )
        for answer in answers:
            if not arrived(answer):
                answer.error_code = ErrorCode.REQUEST_TIMED_OUT


def _each_once(
    request: CreateTopicsRequest | CreatePartitionsRequest,
    new_answer: Callable[[str], Answer],
    change: Callable[[Any, bool], None],
    context: RequestContext,
) -> tuple[list[Answer], list[Answer]]:
    """Make a change for each topic of a request, which may name a topic only once.

    Args:
        request: its topics, and whether to make no change but check everything.
        new_answer: makes the answer for a topic.
        change: makes the change.
        context: of the request.

    Returns:
        The answers, and those of them whose topic was changed.
    """
    times = Counter(topic.topic for topic in request.topics)
    answers: list[Answer] = []
    changed: list[Answer] = []
    for topic in context.paced({topic.topic: topic for topic in request.topics}.values()):
        answer = new_answer(topic.topic)
        answers.append(answer)
        try:
            if times[topic.topic] > 1:
                raise ProtocolError(
                    "Duplicate topic in the request.", code=ErrorCode.INVALID_REQUEST
                )
            change(topic, request.validate_only)
        except ZkbrokerError as error:
            set_error(answer, error)
        else:
            if not request.validate_only:
                changed.append(answer)
    return answers, changed
