"""The settings of a console, and of its clusters from property files.

    zookeeper.connect=zk1:2181,zk2:2181/kafka      or bootstrap.servers, or both
    security.protocol=SASL_SSL                     and other client settings of this cluster
    console.admin.port=9100                        of the brokers' admin pages
    console.admin.pages=1=http://b1:9100,2=...     if they are not on the brokers' hosts
    console.admin.user=console                     their login
    console.admin.password=${file:/etc/zkbroker/secrets.properties:console}
    console.lakes=/lake/events,/lake/clicks        output directories of loads
    kafka.generation=0.7                           for a cluster of this generation

Invariant: an unknown setting is refused by name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.config.generation import find_generation, without_generation
from zkbroker.config.schema import nearest
from zkbroker.config.secret import Secret
from zkbroker.config.security import take_security
from zkbroker.console.access import ClusterSettings
from zkbroker.errors import ConfigError

ZOOKEEPER = "zookeeper.connect"
BOOTSTRAP = "bootstrap.servers"
ADMIN_PORT = "console.admin.port"
ADMIN_PAGES = "console.admin.pages"
ADMIN_USER = "console.admin.user"
ADMIN_PASSWORD = "console.admin.password"  # noqa: S105 - the name of a setting
LAKES = "console.lakes"
_KEYS = (ZOOKEEPER, BOOTSTRAP, ADMIN_PORT, ADMIN_PAGES, ADMIN_USER, ADMIN_PASSWORD, LAKES)
_QUIET = ("client.id", "group.id")
"""Settings in a client's file that mean nothing to a console."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Settings of readings and logins.

    Args:
        interval_s: seconds between two readings of a cluster.
        samples: how many are kept of each series.
        users_file: lines `user:hash`; empty without a login.
        operators: users that may change things; `*` for all viewers.
        hosts: host names that requests may have; empty for any.
    """

    interval_s: float = 5.0
    samples: int = 720
    users_file: str = ""
    operators: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not 0.5 <= self.interval_s <= 3600:
            raise ConfigError("the interval of a console is 0.5 to 3600 seconds")
        if not 2 <= self.samples <= 100_000:
            raise ConfigError("a console keeps 2 to 100000 samples")


def cluster_id_of(name: str) -> str:
    """Return the part of URLs that stands for a cluster's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "cluster"


def cluster_settings(
    name: str, properties: Mapping[str, str], warn: Callable[[str], None] | None = None
) -> ClusterSettings:
    """Build the settings of a cluster from properties; see the module.

    Raises:
        ConfigError: one is not known or not allowed.
    """
    security, rest = take_security(without_generation(properties), warn=warn)
    for key in rest:
        if key not in _KEYS and key not in _QUIET:
            raise ConfigError(
                f"{key} is not a setting of a console's cluster {name}{nearest(key, _KEYS)}"
            )
    password = rest.get(ADMIN_PASSWORD)
    return ClusterSettings(
        id=cluster_id_of(name),
        name=name,
        bootstrap=rest.get(BOOTSTRAP) or None,
        zookeeper=rest.get(ZOOKEEPER) or None,
        security=security,
        admin_port=_port(rest[ADMIN_PORT]) if rest.get(ADMIN_PORT) else None,
        admin_pages=dict(map(parse_page, _listed(rest.get(ADMIN_PAGES)))),
        admin_user=rest.get(ADMIN_USER) or None,
        admin_password=None if password is None else Secret(password),
        lakes=tuple(_listed(rest.get(LAKES))),
        generation=find_generation(properties),
    )


def parse_page(text: str) -> tuple[int, str]:
    """Read `ID=http://host:port`.

    Raises:
        ConfigError: it has another form.
    """
    broker, _, address = text.partition("=")
    if not broker.isdecimal() or not address.startswith(("http://", "https://")):
        raise ConfigError(
            f"{text!r} is not an admin page of a broker: give ID=http://HOST:PORT, as in "
            "1=http://broker1:9100"
        )
    return int(broker), address.rstrip("/")


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise ConfigError(f"{ADMIN_PORT}={text} is not allowed: give a port, 1 to 65535")
    return int(text)


def _listed(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]
