"""Partitions of a 0.7 cluster, and who has them.

A partition belongs to a broker for ever: it is named `N-P`, broker and number, and is away while
its broker is. Its positions are positions in bytes.

Invariant: a partition that was found keeps its place; one whose broker went is left out, not moved.
"""

from types import TracebackType
from typing import Self

from zkbroker.consumer.legacy07.simple import SimpleConsumer07
from zkbroker.errors import ClientError
from zkbroker.registry import legacy07 as registry
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.types import Partition07
from zkbroker.zookeeper import ZkSession


class Cluster07:
    """A genuine or our own 0.7 cluster, by its ZooKeeper.

    Args:
        zookeeper: `host:port,host:port/chroot` of its registry.
        session_timeout_ms: of the session.
        socket_timeout_ms: of connections to brokers.
        fetch_bytes: what a fetch asks for at most.
        runtime: `threads`, `gevent` or a `Runtime`.
    """

    def __init__(
        self,
        zookeeper: str,
        *,
        session_timeout_ms: int = 6000,
        socket_timeout_ms: int = 30_000,
        fetch_bytes: int = 1024 * 1024,
        runtime: str | Runtime = "threads",
    ) -> None:
        self._runtime = get_runtime(runtime)
        self._session = ZkSession(
            zookeeper, session_timeout_ms=session_timeout_ms, runtime=self._runtime
        )
        self._socket_timeout_ms = socket_timeout_ms
        self._fetch_bytes = fetch_bytes
        self._consumers: dict[tuple[int, str, int], SimpleConsumer07] = {}

    def start(self) -> Self:
        """Connect to ZooKeeper.

        Raises:
            RegistryError: it does not answer.
        """
        self._session.start()
        return self

    def close(self) -> None:
        """Close every connection."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
        self._session.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def partitions(self, topic: str) -> list[Partition07]:
        """Return the partitions of a topic on the brokers that are up, in numeric order.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        up = registry.brokers(self._session)
        return [each for each in registry.partitions(self._session, topic) if each.broker in up]

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return host and port of the brokers that are up, by id.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        return registry.brokers(self._session)

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        return registry.topics(self._session)

    def consumer(self, broker: int) -> SimpleConsumer07:
        """Return the consumer of a broker, wherever it listens now.

        Raises:
            ClientError: it is down.
            RegistryError: ZooKeeper does not answer.
        """
        address = registry.brokers(self._session).get(broker)
        if address is None:
            raise ClientError(f"broker {broker} of the 0.7 cluster is down: start it, or wait")
        key = (broker, *address)
        consumer = self._consumers.get(key)
        if consumer is None:
            for old in [each for each in self._consumers if each[0] == broker]:
                self._consumers.pop(old).close()
            consumer = self._consumers[key] = SimpleConsumer07(
                *address,
                socket_timeout_ms=self._socket_timeout_ms,
                fetch_bytes=self._fetch_bytes,
                runtime=self._runtime,
            )
        return consumer
