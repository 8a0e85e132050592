"""`zkbroker console`: a web page over clusters."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import NO_CLUSTER, cluster_options
from zkbroker.cli.logs import configure_logging, log_options
from zkbroker.cli.output import say, warn
from zkbroker.cli.security import security_properties
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.console.access import ClusterSettings


@click.command(
    "console",
    epilog="\b\nExamples:\n"
    "  zkbroker console -z 127.0.0.1:2181\n"
    "  zkbroker console -z zk1:2181/kafka --admin-port 9100 --port 8080\n"
    "  zkbroker console --cluster live=live.properties --cluster spare=spare.properties\n"
    "  zkbroker console -z zk1:2181 --host 0.0.0.0 --tls-key console.pem --users console.users "
    "--operator alice",
)
@cluster_options
@click.option(
    "--cluster",
    "clusters",
    metavar="NAME=FILE",
    multiple=True,
    help="A cluster by its property file: zookeeper.connect or bootstrap.servers, and the "
    "security settings of clients; repeatable.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Port to listen on; 0: a free one.",
)
@click.option(
    "--users",
    "users_file",
    type=click.Path(exists=True, dir_okay=False),
    help="File of users, lines made by `zkbroker hash-password`; without it there is no login.",
)
@click.option(
    "--operator",
    "operators",
    metavar="USER",
    multiple=True,
    help="A user who may change things; all others can only look. Repeatable.",
)
@click.option(
    "--allow-changes",
    is_flag=True,
    help="Without --users: every visitor of the page may change things.",
)
@click.option(
    "--allowed-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Another host name of the page, such as a proxy's. Repeatable.",
)
@click.option(
    "--tls-key",
    type=click.Path(exists=True, dir_okay=False),
    help="PEM file with the private key and certificates of the page, which then speaks HTTPS.",
)
@click.option(
    "--admin-port",
    type=click.IntRange(1, 65535),
    help="Port of the brokers' admin pages, for clients, CPU and rates of bytes.",
)
@click.option(
    "--admin-page",
    "admin_pages",
    metavar="ID=URL",
    multiple=True,
    help="Admin page of one broker, as in 1=http://broker1:9100. Repeatable.",
)
@click.option(
    "--lake",
    "lakes",
    type=click.Path(file_okay=False),
    multiple=True,
    help="An output directory of loads, whose runs and lag are shown. Repeatable.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=5.0,
    show_default=True,
    help="Seconds between two readings of a cluster.",
)
@settings_option("-X", text="A setting of the cluster of -z or -b, over those of --command-config.")
@log_options
def command(
    bootstrap: str | None,
    zookeeper: str | None,
    clusters: tuple[str, ...],
    host: str,
    port: int,
    users_file: str | None,
    operators: tuple[str, ...],
    allow_changes: bool,
    hosts: tuple[str, ...],
    tls_key: str | None,
    admin_port: int | None,
    admin_pages: tuple[str, ...],
    lakes: tuple[str, ...],
    interval: float,
    settings: tuple[str, ...],
    log_level: str,
    log_format: str,
) -> None:
    """Show clusters in a web page.

    Nothing can be changed there unless --operator or --allow-changes says so. When it serves, it
    prints one line with its address to standard output; Ctrl-C stops it.
    """
    try:
        from zkbroker.console.server import serve
    except ImportError as error:
        raise ConfigError("the console needs an extra: pip install 'zkbroker[console]'") from error
    from zkbroker.console.settings import ConsoleSettings

    configure_logging(log_level, log_format)
    listed = _clusters(
        bootstrap,
        zookeeper,
        clusters,
        admin_port,
        admin_pages,
        lakes,
        parse_settings(settings, "-X"),
    )
    if operators and users_file is None:
        raise ConfigError("--operator names a user of --users: give that file, or --allow-changes")
    if allow_changes and users_file is not None:
        raise ConfigError("with --users, name those who may change things by --operator")
    _check_exposure(host, users_file, allow_changes=allow_changes)
    contexts = None
    if tls_key is not None:
        from zkbroker.config.tls import TlsSettings
        from zkbroker.security.tls.contexts import Reloaded, make_server_context

        contexts = Reloaded(
            TlsSettings(keystore_location=tls_key),
            lambda tls: make_server_context(tls, "none", kernel=False),
        ).context
    scheme = "http" if contexts is None else "https"
    shown = f"[{host}]" if ":" in host else host

    def ready(at: int) -> None:
        say(f"zkbroker console ready address={scheme}://{shown}:{at}/")
        sys.stdout.flush()

    serve(
        ConsoleSettings(
            interval_s=interval,
            users_file=users_file or "",
            operators=frozenset({"*"} if allow_changes else operators),
            hosts=_hosts(host, hosts, users_file),
        ),
        listed,
        host,
        port,
        ready,
        contexts,
    )


def _clusters(
    bootstrap: str | None,
    zookeeper: str | None,
    files: tuple[str, ...],
    admin_port: int | None,
    admin_pages: tuple[str, ...],
    lakes: tuple[str, ...],
    given: Mapping[str, str],
) -> "list[ClusterSettings]":
    """Return the settings of all named clusters."""
    from zkbroker.config import load_properties
    from zkbroker.console import settings as keys

    listed = []
    if bootstrap is not None or zookeeper is not None:
        properties = {**security_properties(), **given}
        if bootstrap is not None:
            properties[keys.BOOTSTRAP] = bootstrap
        if zookeeper is not None:
            properties[keys.ZOOKEEPER] = zookeeper
        if admin_port is not None:
            properties[keys.ADMIN_PORT] = str(admin_port)
        if admin_pages:
            properties[keys.ADMIN_PAGES] = ",".join(admin_pages)
        if lakes:
            properties[keys.LAKES] = ",".join(lakes)
        name = zookeeper or bootstrap or ""
        listed.append(keys.cluster_settings(name, properties, warn))
    elif given or admin_port is not None or admin_pages or lakes:
        raise ConfigError(
            "-X, --admin-port, --admin-page and --lake apply to the cluster of -z or -b: write "
            "them into the file of --cluster as console.* and client settings"
        )
    for text in files:
        name, separator, path = text.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=FILE", param_hint="--cluster")
        if not Path(path).is_file():
            raise click.BadParameter(f"there is no file {path}", param_hint="--cluster")
        listed.append(keys.cluster_settings(name.strip(), load_properties(path), warn))
    if not listed:
        raise ConfigError(NO_CLUSTER)
    return listed


def _check_exposure(host: str, users_file: str | None, *, allow_changes: bool) -> None:
    """Refuse to serve other machines without a login.

    Raises:
        ConfigError: it would.
    """
    from zkbroker.broker.admin_port import is_loopback

    if not is_loopback(host) and users_file is None:
        changes = " and change things" if allow_changes else ""
        raise ConfigError(
            f"--host {host} lets others reach the page{changes}: give --users FILE with lines of "
            "zkbroker hash-password, or leave --host out"
        )


def _hosts(host: str, hosts: tuple[str, ...], users_file: str | None) -> frozenset[str]:
    """Return the host names that requests may have; any if there is a login."""
    if users_file is not None and not hosts:
        return frozenset()
    local = {"localhost", "127.0.0.1", "::1", host.strip("[]").lower()}
    return frozenset(local | {each.lower() for each in hosts})
