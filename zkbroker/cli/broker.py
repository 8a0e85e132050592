"""`zkbroker broker`: one broker in this process."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.logs import configure_logging, log_options
from zkbroker.cli.output import say
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.broker.mounting import Mount


@click.command(
    "broker",
    epilog="\b\nExamples:\n"
    "  zkbroker broker server.properties\n"
    "  zkbroker broker server.properties --set broker.id=2 --set port=9093",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@settings_option("--set", text="Set a property, over the one in the file.")
@click.option("--stop-with-stdin", is_flag=True, hidden=True)
@click.option("--as-server", is_flag=True, hidden=True)
@click.option("--daemon", is_flag=True, hidden=True)
@log_options
def command(
    file: Path,
    settings: tuple[str, ...],
    stop_with_stdin: bool,
    as_server: bool,
    daemon: bool,
    log_level: str,
    log_format: str,
) -> None:
    """Run one broker from a property file.

    The property files of Kafka 0.7 to 2.x work as they are. When the broker serves, it prints one
    line to standard output; SIGINT or SIGTERM stops it cleanly.
    """
    from zkbroker.broker import run_broker
    from zkbroker.cli.twins import warn_of_missing_twins
    from zkbroker.config import load_properties
    from zkbroker.config.broker import BrokerConfig
    from zkbroker.config.java_options import java_properties

    configure_logging(log_level, log_format)
    properties = java_properties() | load_properties(file) | parse_settings(settings, "--set")
    config = BrokerConfig.from_properties(properties)
    if daemon:
        _start_in_background(file, settings)
        return
    warn_of_missing_twins()
    if stop_with_stdin:
        threading.Thread(target=_stop_at_end_of_stdin, daemon=True).start()
    console = _console() if config.admin_console else None
    if not as_server:
        run_broker(config, on_ready=_announce, console=console)
        return
    from zkbroker.cli.server_processes import noted

    with noted():
        run_broker(config, on_ready=_announce, console=console)


def _console() -> "Mount":
    """Return the function that mounts the console on a broker's admin page.

    Raises:
        ConfigError: its library is not installed.
    """
    try:
        from zkbroker.console.mounted import MountedConsole
    except ImportError as error:
        raise ConfigError(
            "admin.console needs an extra: pip install 'zkbroker[console]', or leave it out"
        ) from error
    return MountedConsole


def _start_in_background(file: Path, settings: tuple[str, ...]) -> None:
    from zkbroker.cli.server_processes import spawn

    given = [part for each in settings for part in ("--set", each)]
    pid, output = spawn(["broker", str(file), "--as-server", *given])
    say(f"broker started pid={pid} output={output}")


def _announce(broker_id: int, host: str, port: int, listeners: tuple[str, ...]) -> None:
    shown = f"[{host}]" if ":" in host else host
    names = ",".join(listeners)
    say(f"zkbroker broker ready id={broker_id} address={shown}:{port} listeners={names}")
    sys.stdout.flush()


def _stop_at_end_of_stdin() -> None:
    # A native thread: its blocking read must not stop the event loop.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
