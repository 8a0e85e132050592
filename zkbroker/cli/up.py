"""`zkbroker up`: a cluster on this machine."""

import signal
import tempfile
import threading
from collections.abc import Container, Mapping
from contextlib import ExitStack
from pathlib import Path

import click

from zkbroker.cli.output import say, say_lines
from zkbroker.cli.settings import parse_settings, settings_option

_WATCH_INTERVAL_S = 0.5


@click.command(
    "up",
    epilog="\b\nExamples:\n"
    "  zkbroker up\n"
    "  zkbroker up --brokers 3 --data /var/zkbroker --port 9092 --zookeeper-port 2181\n"
    "  zkbroker up --zookeeper zk1:2181,zk2:2181/kafka --set num.partitions=8\n"
    "  zkbroker up --brokers per-core --zookeeper zk1:2181 --first-id 11 --data /var/zkbroker "
    "--port 9092 --set host.name=kafka1",
)
@click.option(
    "--brokers",
    metavar="N|per-core|per-disk",
    default="1",
    show_default=True,
    help="How many: a number, one for each core, or one for each --disk.",
)
@click.option(
    "--first-id",
    type=click.IntRange(0, 2**31 - 101),
    default=1,
    show_default=True,
    help="Id of the first broker; the others follow. Each host of a cluster needs its own ids.",
)
@click.option(
    "--disk",
    "disks",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    help="Directory for logs, once for each disk; brokers take turns on them.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for all data, kept at the end; by default a temporary one, which is removed.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[/CHROOT]",
    help="Use this ensemble; by default a ZooKeeper is started too.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the first broker; the others follow. By default free ports.",
)
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the started ZooKeeper; by default a free one.",
)
@settings_option(
    "--set",
    text="Set a property of every broker; ports of admin.port and legacy07.listener count up.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 100),
    help="Replicas of new topics; by default 3, or the number of brokers if that is less.",
)
@click.option(
    "--min-insync-replicas",
    type=click.IntRange(1, 100),
    help="Least replicas in sync for acks=all; by default 2 if there are 3 replicas or more.",
)
@click.option("--no-restart", is_flag=True, help="Do not restart a broker that died.")
def command(
    brokers: str,
    first_id: int,
    disks: tuple[Path, ...],
    data: Path | None,
    zookeeper: str | None,
    port: int | None,
    zookeeper_port: int,
    settings: tuple[str, ...],
    replication_factor: int | None,
    min_insync_replicas: int | None,
    no_restart: bool,
) -> None:
    """Start a ZooKeeper and brokers on this machine.

    When all serve, it prints one line `zkbroker ready zookeeper=… brokers=…` to standard output.
    A broker that dies is restarted, with a line on standard error. Ctrl-C stops everything cleanly.

    A broker is one event loop on one core: start several to use all cores. If several join a
    cluster (--zookeeper), their broker.rack is this host, so that the replicas of a partition are
    on different hosts; --set broker.rack overrides it.
    """
    from zkbroker.cluster import ClusterProcesses
    from zkbroker.cluster.placement import broker_count

    properties = parse_settings(settings, "--set")
    count = broker_count(brokers, disks)
    if zookeeper is not None:
        own = range(first_id, first_id + count)
        properties |= _rack(zookeeper, properties, own, several=count > 1 or brokers != "1")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        if data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-")))
        cluster = stack.enter_context(
            ClusterProcesses(
                data,
                brokers=count,
                zookeeper=zookeeper,
                zookeeper_port=zookeeper_port,
                ports=None if port is None else range(port, port + count),
                properties=properties,
                replication=replication_factor,
                min_insync_replicas=min_insync_replicas,
                first_id=first_id,
                disks=disks,
            )
        )
        say(f"zkbroker ready zookeeper={cluster.zookeeper} brokers={cluster.bootstrap_servers}")
        watchdog = cluster.watchdog(
            restart=not no_restart, report=lambda text: say_lines(text, err=True)
        )
        while not stop.wait(_WATCH_INTERVAL_S):
            watchdog.look()


def _rack(
    zookeeper: str, properties: Mapping[str, str], own: Container[int], *, several: bool
) -> dict[str, str]:
    """Return the rack of this host's brokers; none if other brokers of the cluster have none."""
    from zkbroker.cluster.placement import RACK, rack_of_host
    from zkbroker.config.zookeeper_security import take_zookeeper_security
    from zkbroker.registry.brokers import list_brokers
    from zkbroker.zookeeper import ZkSession

    security, _ = take_zookeeper_security(properties)
    with ZkSession(zookeeper, make_chroot=False, security=security) as session:
        registered = list_brokers(session)
    others = [each for broker, each in registered.items() if broker not in own]
    rack = rack_of_host(properties, others, several=several)
    if rack is None and several and RACK not in properties:
        say_lines(
            "other brokers of this cluster name no broker.rack, so these name none: replicas of a "
            "partition may be on one host",
            err=True,
        )
    return {} if rack is None else {RACK: rack}
