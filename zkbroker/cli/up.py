"""`zkbroker up`: a cluster on this machine."""

import signal
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from zkbroker.cli.output import say, say_lines
from zkbroker.cli.settings import parse_settings

_WATCH_INTERVAL_S = 0.5


@click.command(
    "up",
    epilog="\b\nExamples:\n"
    "  zkbroker up\n"
    "  zkbroker up --brokers 3 --data /var/zkbroker --port 9092 --zookeeper-port 2181\n"
    "  zkbroker up --zookeeper zk1:2181,zk2:2181/kafka --set num.partitions=8",
)
@click.option(
    "--brokers", type=click.IntRange(1, 100), default=1, show_default=True, help="How many."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for everything; kept at the end. Without it a temporary one, removed.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[/CHROOT]",
    help="Use this ensemble. Without it a ZooKeeper is started too.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the first broker, the others follow. Without it free ports.",
)
@click.option(
    "--zookeeper-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the ZooKeeper that is started. Without it a free one.",
)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a property of every broker; ports of admin.port and legacy07.listener count up.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 100),
    help="Replicas of new topics; 3, or as many as there are brokers, without it.",
)
@click.option(
    "--min-insync-replicas",
    type=click.IntRange(1, 100),
    help="Replicas that acks=all waits for at least; 2 of 3 or more without it.",
)
@click.option("--no-restart", is_flag=True, help="Do not start a broker again that died.")
def command(
    brokers: int,
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

    When all serve, prints one line `zkbroker ready zookeeper=… brokers=…` to standard output.
    A broker that dies is named on standard error and started again; the others go on meanwhile.
    Ctrl-C stops everything cleanly.
    """
    from zkbroker.cluster import ClusterProcesses

    properties = parse_settings(settings, "--set")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as stack:
        if data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-")))
        cluster = stack.enter_context(
            ClusterProcesses(
                data,
                brokers=brokers,
                zookeeper=zookeeper,
                zookeeper_port=zookeeper_port,
                ports=None if port is None else range(port, port + brokers),
                properties=properties,
                replication=replication_factor,
                min_insync_replicas=min_insync_replicas,
            )
        )
        say(f"zkbroker ready zookeeper={cluster.zookeeper} brokers={cluster.bootstrap_servers}")
        watchdog = cluster.watchdog(
            restart=not no_restart, report=lambda text: say_lines(text, err=True)
        )
        while not stop.wait(_WATCH_INTERVAL_S):
            watchdog.look()
