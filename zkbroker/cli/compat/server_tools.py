"""The genuine scripts that start and stop a broker.

Invariant, beside that of `kafka_tools`: `kafka-server-stop` stops only brokers that
`kafka-server-start` started with the same LOG_DIR. The genuine script would stop all brokers of the
machine.
"""

import sys

import click

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.compat.tool_options import Given
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
    """Stops brokers itself: no command of ours does."""

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
        "Start a broker, with -daemon in the background. Its output goes to "
        "$LOG_DIR/kafkaServer.out; LOG_DIR defaults to logs.",
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
