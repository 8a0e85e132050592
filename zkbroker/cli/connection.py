"""How commands find the cluster: `-b` brokers or `-z` ZooKeeper, or their environment variables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession

F = TypeVar("F", bound=Callable[..., Any])

CLIENT_ID = "zkbroker-cli"
NO_CLUSTER = (
    "no cluster is named: give -b HOST:PORT (brokers) or -z HOST:PORT (ZooKeeper), or set "
    "ZKBROKER_BOOTSTRAP or ZKBROKER_ZOOKEEPER"
)
NO_ZOOKEEPER = "no ZooKeeper is named: give -z HOST:PORT[/CHROOT] or set ZKBROKER_ZOOKEEPER"


def cluster_options(command: F) -> F:
    """Add `-b` and `-z`, given to the command as `bootstrap` and `zookeeper`."""
    command = zookeeper_option(command)
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--broker-list",
        envvar="ZKBROKER_BOOTSTRAP",
        metavar="HOST:PORT[,HOST:PORT]",
        help="Brokers to ask where the others are.",
    )(command)


def zookeeper_option(command: F) -> F:
    """Add `-z`, given to the command as `zookeeper`."""
    return click.option(
        "-z",
        "--zookeeper",
        envvar="ZKBROKER_ZOOKEEPER",
        metavar="HOST:PORT[/CHROOT]",
        help="The ZooKeeper in which the brokers are registered.",
    )(command)


def discovery_properties(bootstrap: str | None, zookeeper: str | None) -> dict[str, str]:
    """Return the producer properties that find the cluster.

    Raises:
        ConfigError: neither brokers nor a ZooKeeper is given.
    """
    if bootstrap is not None:
        return {"metadata.broker.list": bootstrap}
    if zookeeper is not None:
        return {"zookeeper.connect": zookeeper}
    raise ConfigError(NO_CLUSTER)


@contextmanager
def open_cluster(bootstrap: str | None, zookeeper: str | None) -> "Iterator[Cluster]":
    """Connect to a cluster by its brokers or its ZooKeeper; brokers count when both are given.

    Raises:
        ConfigError: neither is given.
        ClientError: no broker answers.
        RegistryError: ZooKeeper does not answer.
    """
    from zkbroker.client import Cluster, StaticSource, ZooKeeperSource

    source: StaticSource | ZooKeeperSource
    if bootstrap is not None:
        source = StaticSource(bootstrap.split(","))
    elif zookeeper is not None:
        source = ZooKeeperSource(zookeeper)
    else:
        raise ConfigError(NO_CLUSTER)
    with Cluster(source, client_id=CLIENT_ID) as cluster:
        yield cluster


@contextmanager
def open_session(zookeeper: str | None) -> "Iterator[ZkSession]":
    """Connect to ZooKeeper.

    Raises:
        ConfigError: none is given.
        RegistryError: it does not answer.
    """
    from zkbroker.zookeeper.session import ZkSession

    if zookeeper is None:
        raise ConfigError(NO_ZOOKEEPER)
    with ZkSession(zookeeper) as session:
        yield session
