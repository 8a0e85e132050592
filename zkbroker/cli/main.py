"""The command group and its error handling."""

import errno
import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from zkbroker import __version__
from zkbroker.cli.output import say, say_lines
from zkbroker.cli.suggestions import no_such_command
from zkbroker.errors import ZkbrokerError

COMMANDS = {
    "up": "start a ZooKeeper and brokers on this machine",
    "broker": "run one broker from a property file",
    "zookeeper": "run a ZooKeeper without installing one",
    "topics": "list, create, describe, alter and delete topics",
    "configs": "describe and alter settings of topics and brokers, and quotas",
    "produce": "publish lines of standard input, or files",
    "consume": "print the messages of a topic",
    "kcat": "publish, print and list with kcat's own command line",
    "replay": "copy the messages of a topic into another one",
    "mirror": "copy topics of other clusters into one, continuously",
    "perf": "measure the throughput of producers and consumers",
    "users": "manage users that log in by SCRAM",
    "groups": "list, describe, verify and delete consumer groups",
    "transactions": "list, describe and abort transactions, find those that hang",
    "offsets": "look up log offsets; export, import and reset those of groups",
    "clients": "list clients, their requests and versions",
    "health": "show the problems of a cluster, for probes",
    "top": "show brokers, topics, groups and lag, live",
    "console": "show clusters in a web page",
    "acls": "list, add and remove ACLs",
    "metadata": "list brokers, partitions and leaders",
    "reassign": "move replicas when brokers come or go",
    "drain": "empty a broker before it is taken away",
    "elect": "let preferred replicas lead again",
    "adopt": "serve a data directory of genuine Kafka",
    "log": "check, repair and compact logs, end transactions left open",
    "dump-log": "print the contents of segments and indexes",
    "log-levels": "show and set the levels of loggers of running brokers",
    "log-dirs": "show the data directories of brokers, and the sizes in them",
    "records": "delete the older records of partitions",
    "api-versions": "show the versions of each API that brokers speak",
    "zookeeper-security": "give the nodes in ZooKeeper to the brokers alone",
    "hash-password": "print a line for the file of users of the admin page",
    "doctor": "check whether this machine can run brokers",
    "help": "explain a command",
}


_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


class ReaderGone(Exception):
    """The reader of our output closed it, as `| head` does: the command succeeds."""


@contextmanager
def ending_with_the_reader() -> Iterator[None]:
    """Raise `ReaderGone` when the output is closed, which click and rich treat as a failure."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            raise ReaderGone from None
        raise


class LazyGroup(click.Group):
    """A group whose subcommands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command until its output has no reader."""
        with ending_with_the_reader():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return _genuine_tool(cmd_name)
        package = "compat." if cmd_name == "kcat" else ""
        module = importlib.import_module(f"zkbroker.cli.{package}{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for an unknown one suggests similar names."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            known = list(COMMANDS)
            if name.lower().startswith("kafka"):
                from zkbroker.cli.compat.kafka_tools import NAMES

                known = [*known, *NAMES]
            raise no_such_command(name, known, ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _genuine_tool(name: str) -> click.Command | None:
    if not name.startswith("kafka"):
        return None
    from zkbroker.cli.compat.kafka_tools import find

    return find(name)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each command explains itself: zkbroker COMMAND --help, or zkbroker help COMMAND. The "
    "genuine tools work under their own names and options too: "
    "zkbroker kafka-console-consumer --zookeeper ... "
    "Topics are loaded into files with zkbroker-load, a command of its own.",
)
@click.version_option(__version__, "--version", message="zkbroker %(version)s")
def cli() -> None:
    """Run and use the classic ZooKeeper-coordinated Kafka, in Python."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: members leave their group, files are closed."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def run(command: click.Command, arguments: Sequence[str] | None, name: str) -> NoReturn:
    """Run a command, turn the library's errors into one line each, and exit."""
    # A server installs its own handler when it starts; an ignored signal stays ignored.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    # Problems of these libraries become errors of our own.
    for chatty in (
        "kazoo",
        "zkbroker.zookeeper.client",
        "zkbroker.zookeeper.connection",
        "zkbroker.producer.completion",
    ):
        logging.getLogger(chatty).addHandler(logging.NullHandler())
    # A script may have closed them: output is then dropped, and input is empty.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character, as with LANG=C, gets its escape.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115
    keywords: dict[str, Any] = {"prog_name": name, "standalone_mode": False}
    try:
        result = command.main(None if arguments is None else list(arguments), **keywords)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.Abort as stop:
        # click turns every KeyboardInterrupt into it
        sys.exit(143 if isinstance(stop.__cause__, _Terminated) else 130)
    except click.ClickException as mistake:
        shown = io.StringIO()
        mistake.show(shown)
        for line in shown.getvalue().rstrip("\n").split("\n"):
            say(line, err=True)
        sys.exit(mistake.exit_code)
    except ZkbrokerError as error:
        say_lines(f"error: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            say(note, err=True)
        sys.exit(1)
    except KeyboardInterrupt as stop:
        sys.exit(143 if isinstance(stop, _Terminated) else 130)
    except ReaderGone:
        # The reader is gone; buffered output would fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.filename is None and error.errno in _OF_OUTPUT:
            say(f"error: the output cannot be written: {error.strerror}", err=True)
            # Buffered output would fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        if error.filename is None:
            raise  # not about a file that the user named
        say(f"error: {error.filename}: {error.strerror}: {_cure(error)}", err=True)
        sys.exit(1)
    sys.exit(result if isinstance(result, int) else 0)


def _cure(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "give this user the right to write there, or choose another place"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or choose another place"
    return "choose another place"


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Entry point of the `zkbroker` script."""
    run(cli, arguments, "zkbroker")
