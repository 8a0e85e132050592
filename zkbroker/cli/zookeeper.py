"""`zkbroker zookeeper`: a ZooKeeper from the jars of the pyspark package."""

import signal
import threading
from pathlib import Path

import click

from zkbroker.cli.output import say


@click.command(
    "zookeeper",
    epilog="\b\nExamples:\n  zkbroker zookeeper\n  zkbroker zookeeper --port 2181 --data /var/zk",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=2181, show_default=True, help="0: a free one."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("zookeeper-data"),
    show_default=True,
    help="Data directory; created if missing.",
)
def command(port: int, data: Path) -> None:
    """Run a ZooKeeper without installing one.

    It listens on 127.0.0.1 and needs Java 17+ and the `spark` extra. When it serves, it prints one
    line to standard output; Ctrl-C stops it.
    """
    from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddedZooKeeper(data, port=port) as zookeeper:
        say(f"zkbroker zookeeper ready connect={zookeeper.connect_string}")
        stop.wait()
