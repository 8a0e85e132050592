"""The console of a broker's own cluster, on its admin page under `/console/`.

Invariant: the admin page asks for logins, and its user is the viewer. The console reads the cluster
    as clients do, over its own connections.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from zkbroker.broker.admin_port import is_loopback
from zkbroker.broker.mounting import OwnPage
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.properties import load_properties
from zkbroker.console.composition import Console
from zkbroker.console.settings import ZOOKEEPER, ConsoleSettings, cluster_settings
from zkbroker.network.server.pages import StartResponse
from zkbroker.runtime import get_runtime

_NAME = "cluster"


class MountedConsole(Console):
    """The console of a broker, below a path of its page; `own_page` has the data of that page.

    Raises:
        ConfigError: the file of admin.console.config cannot be used.
    """

    path = "/console/"

    def __init__(self, config: BrokerConfig, broker_id: int, own_page: OwnPage) -> None:
        given = load_properties(config.admin_console_config) if config.admin_console_config else {}
        found = cluster_settings(_NAME, {ZOOKEEPER: config.zookeeper_connect, **given})
        security = replace(found.security, zookeeper=config.zookeeper_security())
        found = replace(
            found,
            security=security,
            # Brokers of a cluster usually have the same port; answers are checked.
            admin_port=found.admin_port or config.admin_port or None,
        )
        hosts: frozenset[str] = frozenset()
        if not config.admin_users_file and is_loopback(config.admin_host):
            hosts = frozenset({"localhost", "127.0.0.1", "::1", config.admin_host})
        settings = ConsoleSettings(operators=frozenset(config.admin_console_operators), hosts=hosts)
        super().__init__(settings, [found], get_runtime("gevent"), own_pages={broker_id: own_page})

    def answer(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        return self.application(environ, start)
