"""How clients connect: plain or by TLS, anonymous or with a login.

    security.protocol   TLS   login
    PLAINTEXT           -     -          the default
    SSL                 yes   -          or by a certificate of the client
    SASL_PLAINTEXT      -     yes
    SASL_SSL            yes   yes

Every client has this group of options. The names are those of Kafka's clients (2.1, PEM since 2.7)
and of librdkafka; the first one given counts.

Invariant: each setting is honoured or refused; a connection is never less protected than its
settings say. Every secret is a `Secret`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zkbroker.config import schema
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.schema import Str, option
from zkbroker.config.tls import TlsSettings
from zkbroker.config.zookeeper_security import (
    UNPROTECTED,
    ZooKeeperSecurity,
    is_zookeeper_security,
    take_zookeeper_security,
)
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How a client connects to brokers.

    Attributes:
        protocol: one of `PROTOCOLS`.
        tls: keys and authorities, where the protocol has TLS.
        sasl: the login; None where the protocol has none.
        zookeeper: how to connect to ZooKeeper, for the clients that use it.
    """

    # fmt: off
    protocol: str = option("security.protocol", Str(PROTOCOLS), PLAINTEXT,
        "Protocol of connections to brokers: plain or TLS (SSL), and with a login (SASL_).")
    # fmt: on
    tls: TlsSettings = field(default_factory=TlsSettings)
    sasl: SaslLogin | None = None
    zookeeper: ZooKeeperSecurity = UNPROTECTED

    def __post_init__(self) -> None:
        schema.validate(self)
        if self.has_login and self.sasl is None:
            raise ConfigError(
                f"security.protocol={self.protocol} needs a login: set sasl.mechanism and "
                "sasl.jaas.config, or sasl.username and sasl.password"
            )

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_login(self) -> bool:
        """Whether clients log in."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ClientSecurity":
        """Build from the properties of a client; see `take_security` for the keys.

        Raises:
            ConfigError: a value is not allowed, or what the protocol needs is missing.
        """
        security, _ = take_security(properties, warn=warn)
        return security


NO_SECURITY: Final = ClientSecurity()
"""The default: plain connections without a login."""

KEYS: Final = schema.keys(ClientSecurity, TlsSettings, SaslLogin)
"""Every property of this group that has an effect."""
_PREFIXES = ("ssl.", "sasl.", "security.")
_REFUSED: Final = {
    "ssl.engine.factory.class": "Java classes cannot be loaded; leave it out",
    "ssl.crl.location": "lists of revoked certificates are not read; leave it out",
    "sasl.login.class": "Java classes cannot be loaded; leave it out",
    "sasl.client.callback.handler.class": "Java classes cannot be loaded; leave it out",
    "security.providers": "Java classes cannot be loaded; leave it out",
}


def is_security(key: str) -> bool:
    """Whether a property of a client belongs to this group."""
    return key in KEYS or key.startswith(_PREFIXES) or is_zookeeper_security(key)


def take_security(
    properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
) -> tuple[ClientSecurity, dict[str, str]]:
    """Take the properties of this group out of all properties of a client.

    Args:
        properties: key → text, this group's and others.
        warn: receives each warning; the module's logger by default.

    Returns:
        How to connect, and the properties that are left. Keys without a meaning that stand under
        `ssl.`, `sasl.` and `security.` are warned of here.

    Raises:
        ConfigError: a value is not allowed, or what the protocol needs is missing.
    """
    zookeeper, properties = take_zookeeper_security(properties, warn=warn)
    own: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in properties.items():
        (own if is_security(key) else rest)[key] = value
    if not own:
        return (
            NO_SECURITY if zookeeper == UNPROTECTED else ClientSecurity(zookeeper=zookeeper)
        ), rest
    report = warn if warn is not None else logger.warning
    for key, reason in _REFUSED.items():
        if own.get(key):
            raise ConfigError(f"{key} is not supported: {reason}")
    of_tls, of_login = schema.of_group(TlsSettings, own), schema.of_group(SaslLogin, own)
    tls = schema.from_properties(TlsSettings, of_tls, warn=report)
    protocol = schema.parse_value(
        "security.protocol", own.get("security.protocol", PLAINTEXT), Str(PROTOCOLS)
    )
    for key in own:
        if key not in KEYS and key not in TlsSettings.IGNORED:
            hint = schema.nearest(key, KEYS)
            report(f"config key={key} is unknown and ignored{hint}")
    has_login = protocol in (SASL_PLAINTEXT, SASL_SSL)
    if of_login and not has_login:
        report(
            f"config key={next(iter(of_login))} has no effect with "
            f"security.protocol={protocol}: set SASL_SSL or SASL_PLAINTEXT"
        )
    if of_tls and protocol not in (SSL, SASL_SSL):
        report(
            f"config key={next(iter(of_tls))} has no effect with "
            f"security.protocol={protocol}: set SSL or SASL_SSL"
        )
    sasl = None
    if has_login and of_login:
        sasl = schema.from_properties(SaslLogin, of_login, warn=report)
    return ClientSecurity(protocol=protocol, tls=tls, sasl=sasl, zookeeper=zookeeper), rest
