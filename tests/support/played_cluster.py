"""A fake `zkbroker.client.Cluster` with its connections, without a network.

A test gives the topics, and a function that answers each request; requests are kept. The real
ones are tested in `tests/unit/client/test_cluster.py` and `tests/integration`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from zkbroker.client import PartitionInfo
from zkbroker.client.view import BrokerAddress
from zkbroker.errors import UnknownTopicOrPartition, UnsupportedVersion
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime

Answer = Callable[["PlayedConnection", Any], Any]


class PlayedConnection:
    """One of a `PlayedCluster`; `broker` is None where any broker may answer."""

    address = "b:1"
    request_timeout_s = 30.0

    def __init__(self, cluster: "PlayedCluster", broker: int | None) -> None:
        self._cluster = cluster
        self.broker = broker
        self.versions = cluster.versions
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def best_version(self, api_key: int, at_most: int | None = None) -> int:
        if at_most is not None and at_most < self._cluster.oldest_version:
            raise UnsupportedVersion("too new")
        return self._cluster.version if at_most is None else min(self._cluster.version, at_most)

    def send(self, request: Any, version: int | None = None) -> "PlayedPending":
        self._cluster.asked.append((self.broker, request, version))
        return PlayedPending(self, request, version)

    def request(
        self, request: Any, version: int | None = None, timeout_s: float | None = None
    ) -> Any:
        return self.send(request, version).result()

    def answer(self, request: Any) -> Any:
        return self._cluster.answer(self, request)


class PlayedPending:
    """A response that has arrived; an exception is raised."""

    def __init__(self, connection: PlayedConnection, request: Any, version: int | None) -> None:
        self._connection, self.request, self.version = connection, request, version

    def wait(self, timeout_s: float) -> bool:
        return True

    def result(self, timeout_s: float | None = None, **how: bool) -> Any:
        answer = self._connection.answer(self.request)
        if isinstance(answer, Exception):
            raise answer
        return answer


class PlayedCluster:
    """A cluster with given topics and brokers.

    Args:
        answer: called with the connection and each request; returns the response, or an exception
            to be raised.
        leaders: topic -> the leader of each partition, None where there is none.
        brokers: ids.
        version: of every API.
        versions: the APIs that its brokers have.
    """

    runtime = get_runtime("threads")

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        leaders: Mapping[str, Sequence[int | None]] | None = None,
        brokers: Collection[int] = (0, 1),
        version: int = 1,
        versions: Any = tuple(ApiKey),
    ) -> None:
        if answer is not None:
            self.answer = answer
        self.leaders = dict(leaders or {})
        self.addresses = {each: BrokerAddress(each, "b", 1) for each in brokers}
        self.version, self.versions = version, versions
        self.oldest_version = 0
        self.asked: list[tuple[int | None, Any, int | None]] = []
        """Broker, request and version of everything that was sent."""
        self.watchers: list[Callable[[], None]] = []

    def answer(self, connection: PlayedConnection, request: Any) -> Any:
        raise AssertionError(f"the test expects no request: {request}")

    def start(self) -> "PlayedCluster":
        return self

    def close(self) -> None: ...

    def refresh(self, topics: Any = None, *, timeout_s: float | None = None) -> None: ...

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.watchers.append(callback)
        return lambda: self.watchers.remove(callback)

    def brokers(self) -> dict[int, BrokerAddress]:
        return self.addresses

    def topics(self) -> list[str]:
        return sorted(self.leaders)

    def partitions(self, topic: str, *, create: bool = False) -> tuple[PartitionInfo, ...]:
        if topic not in self.leaders:
            raise UnknownTopicOrPartition(topic)
        return tuple(PartitionInfo(topic, *each) for each in enumerate(self.leaders[topic]))

    def any_connection(self) -> PlayedConnection:
        return PlayedConnection(self, None)

    def connection(
        self, broker_id: int, lane: str = "", *, timeout_s: float | None = None
    ) -> PlayedConnection:
        return PlayedConnection(self, broker_id)

    def ask_any(self, question: Callable[..., Any], *, timeout_s: float | None = None) -> Any:
        return question(self.any_connection(), timeout_s)
