"""Offsets of a group kept by brokers: OffsetCommit and OffsetFetch.

Version 0 of both requests may go to any broker, which keeps the offsets in ZooKeeper; later ones
go to the group's coordinator, which keeps them in `__consumer_offsets`. The coordinator may be
loading, or move: it is looked for again, with a pause between two tries.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from zkbroker.consumer.lookup import by_topic
from zkbroker.consumer.partition import TopicPartition
from zkbroker.errors import ErrorCode, NetworkError, ProtocolError, RequestTimedOut, protocol_error
from zkbroker.network import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Version 2 of OffsetCommit leaves the retention to the broker and needs no timestamps; brokers of
# 0.8.2 have 1. Newer versions add nothing for a consumer outside the coordinator's groups.
_NEWEST_COMMIT = 2
_NEWEST_FETCH = 1
_COORDINATOR_MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def commit_offsets(
    connection: BrokerConnection,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    version: int,
) -> None:
    """Send one OffsetCommit for a group without coordinated members.

    Raises:
        ProtocolError: the first partition that was refused.
    """
    topics = [
        OffsetCommitRequestTopic(
            topic=topic,
            partitions=[
                OffsetCommitRequestPartition(partition=partition, offset=offset, metadata="")
                for partition, offset in partitions
            ],
        )
        for topic, partitions in by_topic(offsets)
    ]
    response = connection.request(OffsetCommitRequest(group_id=group, topics=topics), version)
    for answer in response.topics:
        for part in answer.partitions:
            if part.error_code:
                where = f"commit of group {group} for {answer.topic}-{part.partition}"
                raise protocol_error(part.error_code, where)


def fetch_offsets(
    connection: BrokerConnection,
    group: str,
    partitions: Sequence[TopicPartition],
    *,
    version: int,
) -> dict[TopicPartition, int | None]:
    """Send one OffsetFetch; None where the group has no offset.

    Raises:
        ProtocolError: the first partition that was refused.
    """
    topics = [
        OffsetFetchRequestTopic(topic=topic, partitions=[partition for partition, _ in numbers])
        for topic, numbers in by_topic(dict.fromkeys(partitions))
    ]
    response = connection.request(OffsetFetchRequest(group_id=group, topics=topics), version)
    found: dict[TopicPartition, int | None] = dict.fromkeys(partitions)
    for answer in response.topics:
        for part in answer.partitions:
            # "No offset" is error 3 in version 0, and in version 1 of 0.8.2 brokers.
            if part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if part.error_code:
                where = f"offset of group {group} for {answer.topic}-{part.partition}"
                raise protocol_error(part.error_code, where)
            if part.offset >= 0:
                found[answer.topic, part.partition] = part.offset
    return found


class KafkaOffsets:
    """The offsets of one group in `__consumer_offsets`.

    Args:
        group: the group id.
        any_connection: gives a connection to some broker.
        connect: (broker id, host, port) -> a connection to the coordinator.
        runtime: for the pause between two tries.
        backoff_ms: that pause (`offsets.channel.backoff.ms`).
        retries: how often one commit or read is tried again (`offsets.commit.max.retries`).
        stopping: asked before each new try; True gives up.
    """

    def __init__(
        self,
        group: str,
        *,
        any_connection: Callable[[], BrokerConnection],
        connect: Callable[[int, str, int], BrokerConnection],
        runtime: Runtime,
        backoff_ms: int = 1000,
        retries: int = 5,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._group = group
        self._any_connection = any_connection
        self._connect = connect
        self._runtime = runtime
        self._backoff_s = backoff_ms / 1000
        self._retries = retries
        self._stopping = stopping
        self._coordinator: BrokerConnection | None = None

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets.

        Raises:
            ProtocolError: refused, or the coordinator stayed out of reach.
        """

        def ask(connection: BrokerConnection) -> None:
            version = connection.best_version(ApiKey.OFFSET_COMMIT, at_most=_NEWEST_COMMIT)
            commit_offsets(connection, self._group, offsets, version=version)

        if offsets:
            self._ask(ask)

    def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return committed offsets, None where there is none.

        Raises:
            ProtocolError: refused, or the coordinator stayed out of reach.
        """

        def ask(connection: BrokerConnection) -> dict[TopicPartition, int | None]:
            version = connection.best_version(ApiKey.OFFSET_FETCH, at_most=_NEWEST_FETCH)
            return fetch_offsets(connection, self._group, partitions, version=version)

        return self._ask(ask) if partitions else {}

    def _ask(self, question: Callable[[BrokerConnection], T]) -> T:
        tries = 0
        while True:
            try:
                return question(self._find())
            except ProtocolError as error:
                if error.code not in _COORDINATOR_MOVED:
                    raise
                self._coordinator = None
                tries += 1
                if tries > self._retries or self._stopping():
                    raise
                logger.info("coordinator sought again group=%s error=%s", self._group, error)
                self._runtime.sleep(self._backoff_s)

    def _find(self) -> BrokerConnection:
        if self._coordinator is not None and not self._coordinator.closed:
            return self._coordinator
        asked = self._any_connection()
        version = asked.best_version(ApiKey.FIND_COORDINATOR)
        try:
            answer = asked.request(FindCoordinatorRequest(key=self._group), version)
        except (NetworkError, RequestTimedOut):
            asked.close()
            raise
        if answer.error_code:
            raise protocol_error(answer.error_code, f"coordinator of group {self._group}")
        self._coordinator = self._connect(answer.node_id, answer.host, answer.port)
        return self._coordinator
