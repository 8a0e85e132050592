"""The connections of a console to its clusters, and their state.

Invariant: the console starts without a cluster that it cannot reach, shows the reason, and tries
    again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkbroker.admin.cluster_tree import find_no_brokers
from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.config.secret import Secret
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.console.other_generation import ConsoleGeneration, OtherCluster
from zkbroker.errors import ConfigError, RegistryError, ZkbrokerError
from zkbroker.runtime import Runtime
from zkbroker.zookeeper import ZkSession

CLIENT_ID = "zkbroker-console"
REQUEST_TIMEOUT_MS = 10_000
_CONNECT_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster of a console.

    Args:
        id: its part of addresses.
        name: shown to people.
        bootstrap: `host:port,…` of brokers; None to find them in ZooKeeper.
        zookeeper: `host:port,…/chroot`; None if it is reached only by its brokers.
        security: of connections to brokers and ZooKeeper.
        admin_port: of the brokers' admin pages, on each broker's host; None for no pages.
        admin_pages: broker id → address of its admin page, over `admin_port`.
        admin_user: the login of admin pages; None for none.
        admin_password: of that user.
        lakes: output directories of loads of this cluster.
        generation: the plug-in of another generation of Kafka; None for 0.8 and later.
    """

    id: str
    name: str
    bootstrap: str | None = None
    zookeeper: str | None = None
    security: ClientSecurity = NO_SECURITY
    admin_port: int | None = None
    admin_pages: Mapping[int, str] = field(default_factory=dict)
    admin_user: str | None = None
    admin_password: Secret | None = None
    lakes: tuple[str, ...] = ()
    generation: ConsoleGeneration | None = None

    def __post_init__(self) -> None:
        if self.generation is not None and (self.bootstrap is not None or self.zookeeper is None):
            raise ConfigError(
                f"cluster {self.name} is of Kafka {self.generation.name}, which is found only by "
                "its ZooKeeper: give zookeeper.connect, and no bootstrap.servers"
            )
        if self.bootstrap is None and self.zookeeper is None:
            raise ConfigError(
                f"cluster {self.name} has no address: give zookeeper.connect or bootstrap.servers"
            )


class ClusterAccess:
    """The connections to one cluster, opened when first needed.

    Attributes:
        session: at ZooKeeper; None if it is not used, or not open yet.
        other: the cluster, through the plug-in of another generation; None for 0.8 and later.
    """

    def __init__(self, settings: ClusterSettings, runtime: Runtime) -> None:
        self.settings = settings
        self.runtime = runtime
        self.session: ZkSession | None = None
        self.other: OtherCluster | None = None
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        """The brokers.

        Raises:
            ZkbrokerError: they have not been reached yet.
        """
        if self._cluster is None:
            raise RegistryError(
                f"cluster {self.settings.name} has not been reached yet: look at the overview for "
                "the reason"
            )
        return self._cluster

    def open(self) -> Cluster:
        """Connect, unless connected.

        Raises:
            ZkbrokerError: the cluster cannot be reached; the message names a remedy.
        """
        if self._cluster is not None:
            return self._cluster
        settings = self.settings
        if settings.zookeeper is not None and self.session is None:
            self.session = self._open_session(settings.zookeeper)
        cluster = self._make_cluster()
        try:
            cluster.start()
        except ZkbrokerError:
            cluster.close()
            raise
        self._cluster = cluster
        return cluster

    def _make_cluster(self) -> Cluster:
        settings = self.settings
        if settings.generation is not None and self.session is not None:
            self.other = settings.generation.observe(self.session, self.runtime)
            return self.other.cluster
        source: StaticSource | ZooKeeperSource
        if settings.bootstrap is not None:
            source = StaticSource(settings.bootstrap)
        else:
            source = ZooKeeperSource(session=self.session)
        return Cluster(
            source,
            runtime=self.runtime,
            client_id=CLIENT_ID,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=_CONNECT_TIMEOUT_MS,
            security=settings.security,
        )

    def _open_session(self, zookeeper: str) -> ZkSession:
        session = ZkSession(
            zookeeper,
            runtime=self.runtime,
            make_chroot=False,
            security=self.settings.security.zookeeper,
        )
        session.start()
        try:
            missing = find_no_brokers(session)
            if missing is not None and not missing.stopped:
                raise RegistryError(missing.text)
        except ZkbrokerError:
            session.close()
            raise
        return session

    def close(self) -> None:
        """Close what is open."""
        if self._cluster is not None:
            self._cluster.close()
        if self.session is not None:
            self.session.close()
        self._cluster = self.session = None
