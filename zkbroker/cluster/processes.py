"""ZooKeeper and several brokers together.

Start: ZooKeeper, then all brokers at once, ready when the last one serves. Stop is the reverse. The
data directory holds everything, so a cluster started again on it goes on where it stopped:

    DATA/zookeeper/            data of the embedded ZooKeeper
    DATA/broker-1/             log directory of broker 1, unless disks are given
    DATA/broker-1.properties   written at each start
    DATA/broker-1.log          its log lines
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from zkbroker.cluster.broker import Broker
from zkbroker.cluster.broker_properties import check_shared, properties_of
from zkbroker.cluster.placement import log_directory
from zkbroker.cluster.process import BrokerProcess
from zkbroker.cluster.replication import replication_properties
from zkbroker.cluster.watchdog import Watchdog, WatchedProcess
from zkbroker.config.broker import refuse_unknown
from zkbroker.config.schema import property_text
from zkbroker.errors import ConfigError, ZkbrokerError
from zkbroker.private_files import make_private_directory
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper, server_mode

FIRST_BROKER_ID = 1


class _BrokerMember:
    """A broker, as the watchdog sees it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.name = f"broker {broker.id}"
        self.launch = broker.launch
        self.poll_ready = broker.poll_ready
        self.kill = broker.kill

    @property
    def alive(self) -> bool:
        return self._broker.alive

    def ending(self) -> str:
        return f"{self._broker.ending()} (its log is {self._broker.log_path})"


class _ZooKeeperMember:
    """The embedded ZooKeeper, as the watchdog sees it."""

    name = "ZooKeeper"

    def __init__(self, server: EmbeddedZooKeeper) -> None:
        self._server = server
        self.launch = server.launch
        self.kill = server.kill

    @property
    def alive(self) -> bool:
        return self._server.running

    def ending(self) -> str:
        return "has died"

    def poll_ready(self) -> bool:
        if not self._server.running:
            raise ZkbrokerError("ZooKeeper died while it was starting")
        return server_mode(self._server.port) is not None


class ClusterProcesses:
    """A cluster on this machine: brokers as processes, on an embedded or an external ZooKeeper.

    Args:
        directory: of all data; kept at stop.
        brokers: how many.
        zookeeper: `host:port[,host:port][/chroot]` of an external ensemble; embedded if None.
        zookeeper_port: port of the embedded ZooKeeper, 0 for a free one.
        ports: one for each broker; free ones if None.
        properties: properties for every broker; numbers and truth values may be given as such. See
            `broker_properties` for those that several cannot share.
        replication: replicas of new topics; by default 3, or the number of brokers if less.
        min_insync_replicas: see `replication_properties`.
        first_id: id of the first broker; the others follow.
        disks: directories on which the brokers' logs take turns, instead of the data directory.
        make_broker: makes a broker of a directory and properties; a process by default.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        brokers: int = 1,
        zookeeper: str | None = None,
        zookeeper_port: int = 0,
        ports: Sequence[int] | None = None,
        properties: Mapping[str, str | float] | None = None,
        replication: int | None = None,
        min_insync_replicas: int | None = None,
        first_id: int = FIRST_BROKER_ID,
        disks: Sequence[Path] = (),
        make_broker: Callable[[Path, Mapping[str, str]], Broker] = BrokerProcess,
    ) -> None:
        if brokers < 1:
            raise ConfigError(f"brokers={brokers} is not allowed: give a whole number from 1")
        if ports is not None and len(ports) != brokers:
            raise ConfigError(f"give one port for each of the {brokers} brokers, not {len(ports)}")
        given = {key: property_text(key, value) for key, value in (properties or {}).items()}
        refuse_unknown(given)
        replicated = replication_properties(brokers, replication, min_insync_replicas)
        self.directory = Path(directory)
        make_private_directory(self.directory)
        self.embedded = (
            EmbeddedZooKeeper(self.directory / "zookeeper", port=zookeeper_port)
            if zookeeper is None
            else None
        )
        self._external = zookeeper
        self._ports = ports
        self._properties = {**replicated, **given}
        self._count = brokers
        check_shared(self._properties, brokers)
        self._first_id = first_id
        self._disks = tuple(disks)
        self._make_broker = make_broker
        self.brokers: list[Broker] = []

    @property
    def zookeeper(self) -> str:
        """Connect string for clients of this cluster."""
        if self.embedded is not None:
            return self.embedded.connect_string
        assert self._external is not None
        return self._external

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, separated by commas."""
        return _shown(broker.address for broker in self.brokers)

    def bootstrap(self, listener: str) -> str:
        """Return `host:port` of one listener of every broker, separated by commas.

        Raises:
            ZkbrokerError: a broker has no listener of that name.
        """
        for broker in self.brokers:
            if listener not in broker.listeners:
                raise ZkbrokerError(
                    f"broker {broker.id} has no listener {listener}: it has "
                    f"{', '.join(broker.listeners)}"
                )
        return _shown(broker.listeners[listener] for broker in self.brokers)

    def start(self, timeout_s: float = 60) -> None:
        """Start everything and wait until all brokers serve; on failure nothing is left running.

        Raises:
            ZkbrokerError: ZooKeeper or a broker did not start.
        """
        try:
            if self.embedded is not None:
                self.embedded.start()
            self.brokers = [self._broker(index) for index in range(self._count)]
            for broker in self.brokers:
                broker.launch()
            for broker in self.brokers:
                broker.wait_ready(timeout_s)
        except BaseException:
            self.stop()
            raise

    def watchdog(self, *, restart: bool, report: Callable[[str], object]) -> Watchdog:
        """Return a watchdog of ZooKeeper and the brokers; call its `look` again and again.

        Args:
            restart: whether to restart processes that die.
            report: receives a line about each death and each restart.
        """
        members: list[WatchedProcess] = [_BrokerMember(broker) for broker in self.brokers]
        if self.embedded is not None:
            members.insert(0, _ZooKeeperMember(self.embedded))
        return Watchdog(members, restart=restart, report=report)

    def stop(self, timeout_s: float = 15) -> bool:
        """Stop the brokers, then the embedded ZooKeeper.

        Returns:
            Whether every broker stopped by itself within `timeout_s`.
        """
        for broker in self.brokers:
            broker.request_stop()
        stopped = [broker.stop(timeout_s) for broker in self.brokers]
        if self.embedded is not None:
            self.embedded.stop()
        return all(stopped)

    def broker(self, broker_id: int) -> Broker:
        """Return the broker with an id."""
        for broker in self.brokers:
            if broker.id == broker_id:
                return broker
        raise ZkbrokerError(f"this cluster has no broker {broker_id}")

    def add_broker(self, timeout_s: float = 30) -> Broker:
        """Start one more broker and wait until it serves."""
        broker = self._broker(len(self.brokers))
        self.brokers.append(broker)
        broker.start(timeout_s)
        return broker

    def _broker(self, index: int) -> Broker:
        broker_id = self._first_id + index
        port = 0 if self._ports is None or index >= len(self._ports) else self._ports[index]
        return self._make_broker(
            self.directory,
            {
                "broker.id": str(broker_id),
                "port": str(port),
                "zookeeper.connect": self.zookeeper,
                **log_directory(index, broker_id, self._disks),
                **properties_of(index, broker_id, self._properties),
            },
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()


def _shown(addresses: Iterable[tuple[str, int]]) -> str:
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses
    )
