"""How commands find the cluster: `-b` brokers or `-z` ZooKeeper, or their environment variables.

A command that needs ZooKeeper accepts brokers too, and asks one of them for its ZooKeeper.

Invariant: the command line overrides the environment.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.cli.output import warn
from zkbroker.cli.security import current_security, security_option, security_properties
from zkbroker.errors import ConfigError, RegistryError

if TYPE_CHECKING:
    from zkbroker.admin.topic_ways import TopicWay
    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession

F = TypeVar("F", bound=Callable[..., Any])

CLIENT_ID = "zkbroker-cli"
NO_CLUSTER = (
    "no cluster is named: give -b HOST:PORT (brokers) or -z HOST:PORT (ZooKeeper), or set "
    "ZKBROKER_BOOTSTRAP or ZKBROKER_ZOOKEEPER"
)
NO_ZOOKEEPER = (
    "no ZooKeeper is named: give -z HOST:PORT[/CHROOT] or set ZKBROKER_ZOOKEEPER; or name a broker "
    "that knows it, with -b HOST:PORT"
)
_BOOTSTRAP_META = "zkbroker.bootstrap"


def cluster_options(command: F) -> F:
    """Add `-b`, `-z` and `--command-config`; the command gets `bootstrap` and `zookeeper`."""
    command = _zookeeper_itself(command)
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        "--broker-list",
        envvar="ZKBROKER_BOOTSTRAP",
        metavar="HOST:PORT[,HOST:PORT]",
        callback=_unless_typed("zookeeper"),
        help="Brokers to connect to first.",
    )(command)


def _unless_typed(other: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a callback that drops a value of the environment if another option was typed.

    Otherwise a command would change a different cluster from the one it names.
    """

    def chosen(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
        typed = click.core.ParameterSource.COMMANDLINE
        # click parses typed options before those of the environment.
        if context.get_parameter_source(other) is not typed:
            return value
        return value if context.get_parameter_source(str(option.name)) is typed else None

    return chosen


def zookeeper_option(command: F) -> F:
    """Add `-z`, `-b` and `--command-config` to a command that works in ZooKeeper.

    It gets only `zookeeper`: None if only brokers are named; then `open_session` asks them for it.
    """
    command = _zookeeper_itself(command, callback=_unless_typed("bootstrap"))
    return click.option(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        envvar="ZKBROKER_BOOTSTRAP",
        metavar="HOST:PORT[,HOST:PORT]",
        expose_value=False,
        callback=_keep_brokers,
        help="Brokers to ask for their ZooKeeper, in place of -z.",
    )(command)


def _zookeeper_itself(command: F, callback: Callable[..., str | None] | None = None) -> F:
    return click.option(
        "-z",
        "--zookeeper",
        envvar="ZKBROKER_ZOOKEEPER",
        metavar="HOST:PORT[/CHROOT]",
        callback=callback,
        help="The ZooKeeper in which the brokers are registered.",
    )(security_option(command))


def _keep_brokers(context: click.Context, option: click.Parameter, bootstrap: str | None) -> None:
    context.meta[_BOOTSTRAP_META] = bootstrap


def _zookeeper_of_brokers() -> str | None:
    """Return the ZooKeeper of the brokers that the command names; None where it names none.

    Raises:
        ClientError: no broker answers, or none names its ZooKeeper.
    """
    from zkbroker.admin.cluster_settings import zookeeper_of
    from zkbroker.client import Cluster, StaticSource

    context = click.get_current_context(silent=True)
    bootstrap = None if context is None else context.meta.get(_BOOTSTRAP_META)
    if bootstrap is None:
        return None
    source = StaticSource(bootstrap.split(","))
    with Cluster(source, client_id=CLIENT_ID, security=current_security()) as cluster:
        return zookeeper_of(cluster)


def discovery_properties(bootstrap: str | None, zookeeper: str | None) -> dict[str, str]:
    """Return the producer properties that find the cluster and connect to it.

    Raises:
        ConfigError: neither brokers nor a ZooKeeper is given.
    """
    if bootstrap is not None:
        return {"metadata.broker.list": bootstrap, **security_properties()}
    if zookeeper is not None:
        return {"zookeeper.connect": zookeeper, **security_properties()}
    raise ConfigError(NO_CLUSTER)


@contextmanager
def open_cluster(bootstrap: str | None, zookeeper: str | None) -> "Iterator[Cluster]":
    """Connect to a cluster by its brokers or its ZooKeeper; by brokers when both are given.

    Raises:
        ConfigError: neither is given.
        ClientError: no broker answers.
        RegistryError: ZooKeeper does not answer, or no broker is registered there.
    """
    from zkbroker.client import Cluster, StaticSource, ZooKeeperSource

    with ExitStack() as stack:
        source: StaticSource | ZooKeeperSource
        if bootstrap is not None:
            source = StaticSource(bootstrap.split(","))
        elif zookeeper is not None:
            session = stack.enter_context(open_session(zookeeper, needs_brokers=True))
            source = ZooKeeperSource(session=session)
        else:
            raise ConfigError(NO_CLUSTER)
        yield stack.enter_context(Cluster(source, client_id=CLIENT_ID, security=current_security()))


@contextmanager
def open_topics(
    bootstrap: str | None, zookeeper: str | None, *, needs_brokers: bool = False
) -> "Iterator[TopicWay]":
    """Open the `TopicWay` that the options name: by brokers when both are given.

    With `needs_brokers`, brokers have to be registered in ZooKeeper.

    Raises:
        ConfigError: neither is given.
        ClientError: no broker answers.
        RegistryError: ZooKeeper does not answer, or there is no cluster under the address.
    """
    from zkbroker.admin.topic_ways import ByZooKeeper
    from zkbroker.admin.wire_topics import ByBrokers

    if bootstrap is not None:
        with open_cluster(bootstrap, None) as cluster:
            yield ByBrokers(cluster)
    elif zookeeper is not None:
        with open_session(zookeeper, needs_brokers=needs_brokers) as session:
            yield ByZooKeeper(session, current_security(), CLIENT_ID)
    else:
        raise ConfigError(NO_CLUSTER)


@contextmanager
def open_session(zookeeper: str | None, *, needs_brokers: bool = False) -> "Iterator[ZkSession]":
    """Connect to the ZooKeeper of a cluster; nothing is created there.

    Args:
        zookeeper: its address with the chroot.
        needs_brokers: brokers have to be registered; otherwise a cluster whose brokers are stopped
            is opened too, with a warning.

    Raises:
        ConfigError: none is given.
        RegistryError: it does not answer, or there is no cluster under the address.
    """
    from zkbroker.admin.cluster_tree import find_no_brokers

    with open_empty_session(zookeeper, make_chroot=False) as session:
        missing = find_no_brokers(session)
        if missing is not None:
            if needs_brokers or not missing.stopped:
                raise RegistryError(missing.text)
            warn(missing.text)
        yield session


@contextmanager
def open_empty_session(zookeeper: str | None, *, make_chroot: bool = True) -> "Iterator[ZkSession]":
    """Connect to a ZooKeeper, or to that of the brokers that the command names.

    It need not hold a cluster yet.

    Args:
        zookeeper: its address with the chroot.
        make_chroot: whether a missing chroot is created, or is an error.

    Raises:
        ConfigError: none is given.
        RegistryError: it does not answer.
    """
    from zkbroker.zookeeper.session import ZkSession

    security = current_security().zookeeper
    found = None if zookeeper is not None else _zookeeper_of_brokers()
    address = zookeeper or found
    if address is None:
        raise ConfigError(NO_ZOOKEEPER)
    with ExitStack() as stack:
        try:
            session = stack.enter_context(
                ZkSession(address, make_chroot=make_chroot, security=security)
            )
        except RegistryError as error:
            if found is not None:
                error.add_note(
                    f"{found} is the zookeeper.connect of the brokers; if it has another "
                    "address from here, give -z HOST:PORT[/CHROOT]"
                )
            raise
        yield session
