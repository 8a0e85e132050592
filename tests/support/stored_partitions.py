"""A cluster of one broker that answers tools from stored entries, without sockets."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from zkbroker.errors import ErrorCode, LeaderNotAvailable, UnknownTopicOrPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchResponse, FindCoordinatorResponse, ListOffsetsResponse
from zkbroker.protocol.messages.fetch import (
    READ_COMMITTED,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.records import iter_entries

BROKER = 1


@dataclass
class Stored:
    """A partition. Args: entries as the log has them, with their offsets."""

    entries: list[bytes] = field(default_factory=list)
    last_stable_offset: int = 0

    @property
    def end(self) -> int:
        return max((each.last_offset + 1 for each in self._heads()), default=0)

    def _heads(self) -> list[Any]:
        return [next(iter(iter_entries(data))) for data in self.entries]

    def read(self, offset: int, size: int) -> bytes:
        found = b""
        for data, head in zip(self.entries, self._heads(), strict=True):
            if head.last_offset < offset:
                continue
            if found and len(found) + len(data) > size:
                return found + data[: size - len(found)]
            found += data
        return found


class StoredCluster:
    """What `zkbroker.client.Cluster` is to tools.

    Args:
        partitions: by topic and number.
        fetch_version: the highest that the broker speaks.
        leaderless: the partitions without a leader.
    """

    def __init__(
        self,
        partitions: dict[tuple[str, int], Stored],
        fetch_version: int = 10,
        leaderless: Collection[tuple[str, int]] = (),
    ) -> None:
        self.stored = partitions
        self.fetch_version = fetch_version
        self.leaderless = leaderless
        self.runtime = SimpleNamespace(sleep=lambda seconds: None)
        self.refreshed = 0
        self.errors: list[ErrorCode] = []
        """What the next fetches are answered with."""
        self.answers: dict[ApiKey, Callable[[Any], Any]] = {
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.FIND_COORDINATOR: lambda _: FindCoordinatorResponse(node_id=BROKER),
        }
        self.asked: list[Any] = []

    # -- the cluster

    def leader(self, topic: str, partition: int) -> int | None:
        led = (topic, partition) in self.stored and (topic, partition) not in self.leaderless
        return BROKER if led else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        return 7

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self.stored})

    def known_partitions(self, topic: str) -> Any:
        return tuple(
            SimpleNamespace(partition=number, leader=self.leader(name, number), leader_epoch=7)
            for name, number in sorted(self.stored)
            if name == topic
        )

    def partitions(self, topic: str) -> Any:
        if topic not in self.topics():
            raise UnknownTopicOrPartition(topic)
        return self.known_partitions(topic)

    def refresh(self, topics: Any = None) -> None:
        self.refreshed += 1

    def connection(
        self, broker: int, lane: str = "", *, timeout_s: float | None = None
    ) -> "StoredCluster":
        return self

    def ask_any(self, question: Any, *, timeout_s: float | None = None) -> Any:
        return question(self, timeout_s)

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        return LeaderNotAvailable(f"{topic}-{partition} has no leader")

    # -- the connection

    address = "stored:9092"

    def best_version(self, api_key: int, at_most: int | None = None) -> int:
        return self.fetch_version if api_key == ApiKey.FETCH else 4

    def send(self, request: Any, version: int | None = None) -> Any:
        self.asked.append(request)
        answer = self.answers[request.api_key](request)
        return SimpleNamespace(
            request=request,
            version=version,
            wait=lambda timeout_s: True,
            result=lambda timeout_s=None, **how: answer,
        )

    def request(
        self, request: Any, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        return self.send(request, version).result()

    # -- the broker

    def _fetch(self, request: Any) -> FetchResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        if self.errors:
            answer = FetchResponsePartition(asked.partition, self.errors.pop(0))
        else:
            stored = self.stored[topic.topic, asked.partition]
            answer = FetchResponsePartition(
                asked.partition, records=stored.read(asked.fetch_offset, asked.max_bytes)
            )
        return FetchResponse(topics=[FetchResponseTopic(topic.topic, [answer])])

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        committed = request.isolation_level == READ_COMMITTED

        def offset(key: tuple[str, int], time_ms: int) -> int:
            stored = self.stored[key]
            if time_ms == -2:
                return 0
            return stored.last_stable_offset if committed else stored.end

        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponseTopic(
                    topic.topic,
                    [
                        ListOffsetsResponsePartition(
                            each.partition,
                            0,
                            offset=offset((topic.topic, each.partition), each.timestamp),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
