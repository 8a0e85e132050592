"""A cluster of Kafka 0.7 with a consumer for each broker: offsets are positions in bytes.

Invariant: a partition keeps its broker; one whose broker is down is left out, not moved.
"""

from zkbroker.client import BrokerUnavailable, Cluster
from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperSecurity
from zkbroker.errors import LeaderNotAvailable
from zkbroker.legacy07.simple import SimpleConsumer07
from zkbroker.legacy07.sources import ZooKeeperSource07
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07
from zkbroker.zookeeper import ZkSession


class FixedLeaders07(Cluster):
    """The brokers of a 0.7 cluster; arguments as of `Cluster`.

    A partition is led by its broker while that is up, even before it is registered: brokers
    register a topic one after the other.
    """

    def leader(self, topic: str, partition: int) -> int | None:
        broker = Partition07.from_number(partition).broker
        return broker if broker in self.brokers() else None

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        name = Partition07.from_number(partition)
        return LeaderNotAvailable(
            f"{topic}-{name} has no leader: broker {name.broker} is not registered; start it"
        )


class Cluster07(FixedLeaders07):
    """A genuine or our own 0.7 cluster, by its ZooKeeper.

    Args:
        zookeeper: `host:port,host:port/chroot` of its registry.
        session: a started session to use instead; it is not closed here.
        security: of the session made here.
        session_timeout_ms: of the session made here.
        socket_timeout_ms: of connections to brokers.
        fetch_bytes: most bytes of a fetch.
        runtime: `threads`, `gevent` or a `Runtime`.
    """

    def __init__(
        self,
        zookeeper: str = "",
        *,
        session: ZkSession | None = None,
        security: ZooKeeperSecurity = UNPROTECTED,
        session_timeout_ms: int = 6000,
        socket_timeout_ms: int = 30_000,
        fetch_bytes: int = 1024 * 1024,
        runtime: str | Runtime = "threads",
    ) -> None:
        source = ZooKeeperSource07(
            zookeeper, session=session, session_timeout_ms=session_timeout_ms, security=security
        )
        super().__init__(source, runtime=runtime, request_timeout_ms=socket_timeout_ms)
        self._socket_timeout_ms = socket_timeout_ms
        self._fetch_bytes = fetch_bytes
        self._consumers: dict[int, SimpleConsumer07] = {}
        self._asking = self.runtime.lock()

    def close(self, timeout_s: float = 5.0) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        super().close(timeout_s)

    def numbers(self, topic: str) -> list[Partition07]:
        """Return the partitions of a topic on the brokers that are up now, in numeric order.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self.refresh([topic])
        known = self.known_partitions(topic) or ()
        return [Partition07.from_number(each.partition) for each in known]

    def consumer(self, broker: int) -> SimpleConsumer07:
        """Return the consumer of a broker, at its present address.

        Raises:
            BrokerUnavailable: it is down.
        """
        address = self.brokers().get(broker)
        if address is None:
            raise BrokerUnavailable(
                f"broker {broker} of the 0.7 cluster is down: start it, or wait"
            )
        consumer = self._consumers.get(broker)
        if consumer is None or (consumer.host, consumer.port) != (address.host, address.port):
            if consumer is not None:
                consumer.close()
            consumer = self._consumers[broker] = SimpleConsumer07(
                address.host,
                address.port,
                socket_timeout_ms=self._socket_timeout_ms,
                fetch_bytes=self._fetch_bytes,
                runtime=self.runtime,
            )
        return consumer

    def offset(self, topic: str, partition: int, time_ms: int) -> int | None:
        """Return the newest position to begin at, at or before a time; safe in any task.

        Args:
            topic: of the partition.
            partition: a `Partition07`.
            time_ms: `EARLIEST_TIME`, `LATEST_TIME` or milliseconds since 1970; 0.7 knows the time
                of whole files only.

        Raises:
            BrokerUnavailable: its broker is down.
            NetworkError: the broker does not answer.
        """
        name = Partition07.from_number(partition)
        with self._asking:
            found = self.consumer(name.broker).offsets(topic, name.number, time_ms)
        return found[0] if found else None
