"""The genuine scripts that start and stop a broker.

Invariant: of `kafka_tools`. What `kafka-server-stop` stops was started by `kafka-server-start` with
the same LOG_DIR: other brokers of the machine, which the genuine script would stop too, go on.
"""

import sys

import click

from zkbroker.cli.compat.given import Given
from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.output import say

_DAEMON = "-daemon"
USAGE = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"


def _start(given: Given) -> list[str]:
    if "version" in given:
        return ["--version"]
    bare = given.get("", [])
    daemon = bare[:1] == [_DAEMON]
    files = bare[1:] if daemon else bare
    if not files:
        say(USAGE)
        sys.exit(1)
    if len(files) > 1 or files[0].startswith("-"):
        raise click.UsageError(f"Found non argument parameters: {','.join(files[1:] or files)}")
    shown = ["broker", files[0], "--as-server", *(["--daemon"] if daemon else [])]
    for text in given.get("override", []):
        shown += ["--set", text]
    return shown


class _Stop(Tool):
    """Stops brokers by itself: no command of ours does."""

    def command(self, name: str) -> click.Command:
        @click.command(name, help=self.summary, epilog=f"\b\nExample:\n  zkbroker {name}")
        def stop() -> None:
            from zkbroker.cli.server_processes import stop_all

            if not stop_all():
                say("No kafka server to stop")
                sys.exit(1)

        return stop


TOOLS = {
    "kafka-server-start": Tool(
        "Start a broker, with -daemon in the background. What such brokers print is in "
        "$LOG_DIR/kafkaServer.out, LOG_DIR is logs without a value.",
        _start,
        example="-daemon server.properties --override broker.id=2",
        values=("override",),
        flags=("version",),
        positional=3,
    ),
    "kafka-server-stop": _Stop(
        "Stop the brokers that kafka-server-start started with the same LOG_DIR, cleanly.",
        _start,
        example="",
    ),
}
