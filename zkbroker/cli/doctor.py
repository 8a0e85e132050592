"""`zkbroker doctor`: checks whether this machine can run brokers."""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from zkbroker.cli.output import json_option, print_json, say
from zkbroker.cli.security import current_security, security_option


@click.command(
    "doctor",
    epilog="\b\nExamples:\n"
    "  zkbroker doctor\n"
    "  zkbroker doctor --data /var/zkbroker --port 9092 --zookeeper zk1:2181\n"
    "  zkbroker doctor -b broker1:9092,broker2:9092",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("/tmp/kafka-logs"),  # noqa: S108 - the default of log.dirs
    show_default=True,
    help="The data directory a broker would use.",
)
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="A port that must be free; repeatable.",
)
@click.option("--zookeeper", "-z", metavar="HOST:PORT[/CHROOT]", help="An ensemble to look at.")
@click.option(
    "--bootstrap-server",
    "--bootstrap",
    "-b",
    "bootstrap",
    metavar="HOST:PORT[,HOST:PORT]",
    help="Brokers to check: each must be reachable at its advertised address.",
)
@security_option
@json_option
def command(
    data: Path,
    ports: tuple[int, ...],
    zookeeper: str | None,
    bootstrap: str | None,
    as_json: bool,
) -> None:
    """Check whether this machine can run brokers, and say what to do if not.

    With -z or -b, also check whether it reaches ZooKeeper or the brokers; both may be given. With
    -z the clock is compared with ZooKeeper's. Exit status 1 when something has to be changed.
    """
    from zkbroker.admin.doctor import diagnose

    findings = diagnose(
        data=data,
        ports=ports,
        zookeeper=zookeeper,
        bootstrap=bootstrap,
        security=current_security(),
    )
    if as_json:
        print_json([asdict(each) for each in findings])
    else:
        # Not a table: a path broken over two lines cannot be copied.
        for finding in findings:
            say(f"{'ok ' if finding.ok else 'BAD'}  {finding.check}: {finding.found}")
            if finding.cure:
                say(f"     what to do: {finding.cure}")
    if not all(finding.ok for finding in findings):
        sys.exit(1)
