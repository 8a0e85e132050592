"""Requests that each broker answers for itself, and deletion of records at the leaders.

    api_versions     the API versions of every broker
    log_dirs         the data directories of every broker, and their replicas
    delete_records   moves the start of logs, at the brokers that lead them
    elect_preferred  asks the controller to make preferred replicas leaders again

Invariant: a result names the brokers that did not answer, so that no total is silently too small.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from zkbroker.client import Cluster
from zkbroker.client.leader_retries import may_pass
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    ProtocolError,
    ZkbrokerError,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    DeleteRecordsRequest,
    DescribeLogDirsRequest,
    ElectPreferredLeadersRequest,
)
from zkbroker.protocol.messages.elect_preferred_leaders import ElectPreferredLeadersTopic
from zkbroker.protocol.messages.log_dirs import DescribeLogDirsTopic
from zkbroker.protocol.messages.topics import (
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from zkbroker.types import PartitionKey

HIGH_WATERMARK = -1
"""Deletes everything that consumers may read."""

_TRIES = 3
_ELECTION_MS = 30_000
"""How long the controller waits for the new leaders."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """Brokers' answers, and the errors of the others; by ids in order."""

    found: dict[int, T] = field(default_factory=dict)
    silent: dict[int, ZkbrokerError] = field(default_factory=dict)

    def reasons(self) -> list[str]:
        """Return the errors of brokers as text."""
        return [f"broker {broker}: {error}" for broker, error in self.silent.items()]

    def require_all(self) -> None:
        """Raise `ClientError` unless every broker answered."""
        if self.silent:
            raise ClientError(f"not every broker answered: {'; '.join(self.reasons())}")


@dataclass(frozen=True, slots=True)
class StoredReplica:
    """A replica on a disk. Args: size in bytes; lag in messages behind the high watermark."""

    topic: str
    partition: int
    size: int
    lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A data directory of a broker; one that failed has an `error` and no replicas."""

    path: str
    error: str | None
    replicas: tuple[StoredReplica, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome for one partition: the new start of its log, or an error."""

    start_offset: int
    error: ZkbrokerError | None = None


def api_versions(cluster: Cluster) -> Answers[Mapping[int, tuple[int, int]]]:
    """Return the API versions of every broker: API → lowest and highest version."""
    return _ask_each(cluster, cluster.brokers(), lambda connection: connection.versions)


def log_dirs(
    cluster: Cluster, brokers: Collection[int] = (), topics: Collection[str] = ()
) -> Answers[list[LogDirectory]]:
    """Return the data directories of brokers.

    Args:
        cluster: a started one.
        brokers: ids; all registered ones by default.
        topics: only these; all by default.

    Raises:
        ClientError: a broker is not registered, or a topic does not exist.
    """
    registered = cluster.brokers()
    unknown = sorted(set(brokers) - registered.keys())
    if unknown:
        raise ClientError(
            f"no broker {', '.join(map(str, unknown))} is registered; registered are "
            f"{', '.join(map(str, sorted(registered)))}"
        )
    wanted = None
    if topics:
        wanted = [
            DescribeLogDirsTopic(topic, [each.partition for each in cluster.partitions(topic)])
            for topic in sorted(topics)
        ]
    return _ask_each(cluster, brokers or registered, lambda each: _log_dirs(each, wanted))


def _ask_each(
    cluster: Cluster, brokers: Collection[int], ask: Callable[[BrokerConnection], T]
) -> Answers[T]:
    answers: Answers[T] = Answers()
    for broker in sorted(brokers):
        try:
            answers.found[broker] = ask(cluster.connection(broker))
        except ZkbrokerError as error:
            answers.silent[broker] = error
    return answers


def delete_records(
    cluster: Cluster, starts: Mapping[PartitionKey, int]
) -> dict[PartitionKey, Deletion]:
    """Delete the records of partitions below an offset.

    Args:
        cluster: a started one.
        starts: the offset at which each log is to start; `HIGH_WATERMARK` for its end.

    Returns:
        The outcome for each partition. If a leader moves meanwhile, the new one is asked.
    """
    done: dict[PartitionKey, Deletion] = {}
    left = dict(starts)
    for last in (*[False] * (_TRIES - 1), True):
        for key, outcome in _delete_at_leaders(cluster, left).items():
            if last or outcome.error is None or not may_pass(outcome.error):
                done[key] = outcome
                del left[key]
        if not left:
            break
        with contextlib.suppress(ZkbrokerError):  # the next try raises the reason
            cluster.refresh(sorted({topic for topic, _ in left}))
    return done


def elect_preferred(
    cluster: Cluster, partitions: Sequence[PartitionKey] | None
) -> dict[PartitionKey, ProtocolError | None]:
    """Have the controller make preferred replicas lead (Kafka 2.2 and later).

    Args:
        cluster: a started one.
        partitions: which; None for all.

    Returns:
        The error of each partition; None if its preferred replica leads.

    Raises:
        ProtocolError: the request was refused as a whole.
        UnsupportedVersion: the brokers are older; the election in ZooKeeper works there.
        ClientError: no broker is the controller.
    """
    topics = None
    if partitions is not None:
        named: defaultdict[str, list[int]] = defaultdict(list)
        for topic, number in partitions:
            named[topic].append(number)
        topics = [ElectPreferredLeadersTopic(topic, numbers) for topic, numbers in named.items()]
    request = ElectPreferredLeadersRequest(topics, _ELECTION_MS)
    silent: list[str] = []
    for broker in sorted(cluster.brokers()):
        try:
            connection = cluster.connection(broker)
            wait_s = _ELECTION_MS / 1000 + connection.request_timeout_s
            response = connection.send(request).result(wait_s)
        except (ClientError, NetworkError) as error:
            silent.append(str(error))
            continue
        answers = {
            (topic.topic, each.partition): _error(each.error_code, each.error_message or "")
            for topic in response.topics
            for each in topic.partitions
        }
        refused = [error for error in answers.values() if error is not None]
        if not any(error.code is ErrorCode.NOT_CONTROLLER for error in refused):
            return answers
    raise ClientError(
        "; ".join(("no broker that answers is the controller: try again in some seconds", *silent))
    )


def _log_dirs(
    connection: BrokerConnection, wanted: list[DescribeLogDirsTopic] | None
) -> list[LogDirectory]:
    response = connection.send(DescribeLogDirsRequest(wanted)).result()
    return [
        LogDirectory(
            each.log_dir,
            None if not each.error_code else str(protocol_error(each.error_code)),
            tuple(
                StoredReplica(
                    topic.topic, part.partition, part.size, part.offset_lag, part.is_future
                )
                for topic in each.topics
                for part in topic.partitions
            ),
        )
        for each in response.log_dirs
    ]


def _delete_at_leaders(
    cluster: Cluster, starts: Mapping[PartitionKey, int]
) -> dict[PartitionKey, Deletion]:
    outcomes: dict[PartitionKey, Deletion] = {}
    by_leader: defaultdict[int, dict[PartitionKey, int]] = defaultdict(dict)
    for key, offset in starts.items():
        try:
            known = {each.partition for each in cluster.partitions(key[0])}
            leader = cluster.leader(*key)
        except ZkbrokerError as error:
            outcomes[key] = Deletion(-1, error)
            continue
        if key[1] not in known:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            outcomes[key] = Deletion(-1, protocol_error(code, f"there is no {key[0]}-{key[1]}"))
        elif leader is None:
            outcomes[key] = Deletion(-1, cluster.no_leader(*key))
        else:
            by_leader[leader][key] = offset
    for leader, wanted in by_leader.items():
        try:
            outcomes.update(_delete_at(cluster.connection(leader), wanted))
        except ZkbrokerError as error:
            outcomes.update(dict.fromkeys(wanted, Deletion(-1, error)))
    return outcomes


def _delete_at(
    connection: BrokerConnection, starts: Mapping[PartitionKey, int]
) -> dict[PartitionKey, Deletion]:
    topics: defaultdict[str, list[DeleteRecordsRequestPartition]] = defaultdict(list)
    for (topic, number), offset in starts.items():
        topics[topic].append(DeleteRecordsRequestPartition(number, offset))
    request = DeleteRecordsRequest(
        [DeleteRecordsRequestTopic(topic, parts) for topic, parts in topics.items()]
    )
    response = connection.send(request).result()
    return {
        (topic.topic, part.partition): Deletion(part.low_watermark, _error(part.error_code))
        for topic in response.topics
        for part in topic.partitions
    }


def _error(code: int, text: str = "") -> ProtocolError | None:
    return protocol_error(code, text) if code else None
