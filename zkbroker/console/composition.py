"""Builds a console from its parts: collectors, logins and the application."""

import time
from collections.abc import Mapping, Sequence

from flask import Flask

from zkbroker.broker.admin_access import AdminAccess
from zkbroker.broker.mounting import OwnPage
from zkbroker.console.access import ClusterAccess, ClusterSettings
from zkbroker.console.application import make_application
from zkbroker.console.collector import Collector
from zkbroker.console.logins import Logins
from zkbroker.console.settings import ConsoleSettings
from zkbroker.errors import ConfigError
from zkbroker.runtime import Runtime

_NO_PAGES: Mapping[int, OwnPage] = {}


class Console:
    """A console over clusters with different ids, on the runtime of gevent.

    `own_pages` has the admin pages, by broker id, of a broker of this process.

    Raises:
        ConfigError: the users file cannot be used, or two clusters have one name.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        clusters: Sequence[ClusterSettings],
        runtime: Runtime,
        *,
        encrypted: bool = False,
        own_pages: Mapping[int, OwnPage] = _NO_PAGES,
    ) -> None:
        access = None
        if settings.users_file:
            access = AdminAccess(settings.users_file, runtime, time.monotonic, "--users")
        self.collectors: dict[str, Collector] = {}
        for each in clusters:
            if each.id in self.collectors:
                raise ConfigError(f"two clusters are named {each.name}: give them different names")
            self.collectors[each.id] = Collector(
                ClusterAccess(each, runtime),
                runtime,
                settings.interval_s,
                settings.samples,
                own_pages,
            )
        self.application: Flask = make_application(
            self.collectors,
            Logins(access, settings.operators, time.monotonic),
            runtime,
            encrypted=encrypted,
            hosts=settings.hosts,
        )

    def start(self) -> None:
        """Start the collectors."""
        for each in self.collectors.values():
            each.start()

    def close(self) -> None:
        """End the streams, and close the connections to the clusters."""
        for each in self.collectors.values():
            each.close()
