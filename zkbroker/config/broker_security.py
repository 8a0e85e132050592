"""How each listener of a broker is protected, and how the broker connects to others.

    ssl.keystore.location=/etc/kafka/own.pem                 for every listener
    listener.name.external.ssl.keystore.location=/etc/...    for the listener EXTERNAL

Invariant: a listener whose protocol has TLS has a key, and asks for certificates only where their
authorities are known; an error names each missing line before anything is opened.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from zkbroker.config.connection_rates import KEY as CONNECTION_RATE
from zkbroker.config.listeners import Endpoint
from zkbroker.config.principal_rules import PrincipalRules
from zkbroker.config.sasl_listeners import (
    JAAS,
    MODULES,
    ListenerSasl,
    inter_broker_mechanism,
    listener_sasl,
)
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.sasl_options import KEYS as SASL_KEYS
from zkbroker.config.schema import (
    Bool,
    Int32,
    Str,
    from_properties,
    keys,
    nearest,
    of_group,
    option,
    quiet,
    validate,
)
from zkbroker.config.security import (
    NO_SECURITY,
    SASL_PLAINTEXT,
    SASL_SSL,
    SSL,
    ClientSecurity,
)
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError

PREFIX = "listener.name."
NONE, REQUESTED, REQUIRED = "none", "requested", "required"
_GLOBAL = ("ssl.", "sasl.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTlsOptions:
    """How a listener with TLS treats those that connect."""

    # fmt: off
    client_auth: str = option("ssl.client.auth", Str((NONE, REQUESTED, REQUIRED)), NONE,
        "Whether clients show certificates: none, requested (they may) or required. A SASL_SSL "
        "listener never asks for them.")
    principal_rules: str = option("ssl.principal.mapping.rules", Str(), "DEFAULT",
        "How the name of a client's certificate becomes that of its user: RULE:regex/name/, with "
        "L or U behind it for lower or upper case, separated by commas; DEFAULT is the whole name. "
        "The first rule whose regular expression fits counts.")
    handshake_timeout_ms: int = option("ssl.handshake.timeout.ms", Int32(1), 10_000,
        "Longest time of a TLS handshake in ms; the connection is closed after it.")
    kernel_offload: bool = option("ssl.kernel.offload", Bool(), True,
        "Whether the kernel encrypts where it can (kTLS), so that files are sent without a copy.")
    # fmt: on

    def __post_init__(self) -> None:
        validate(self)
        PrincipalRules.parse(self.principal_rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSecurity:
    """How one listener is protected.

    Attributes:
        name: of the listener.
        protocol: its security protocol.
        tls: its keys, where the protocol has TLS.
        server: what it asks of clients.
        sasl: how clients log in, where the protocol has logins.
        own: the settings of `listener.name.NAME.`, without that prefix.
        common: `ssl.` and `sasl.` settings of all listeners.
    """

    name: str
    protocol: str
    tls: TlsSettings = field(default_factory=TlsSettings)
    server: ServerTlsOptions = field(default_factory=ServerTlsOptions)
    sasl: ListenerSasl | None = None
    own: Mapping[str, str] = field(default_factory=dict, repr=False)
    common: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_login(self) -> bool:
        """Whether clients log in."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def client_auth(self) -> str:
        """Whether clients show certificates: `none`, `requested` or `required`."""
        return self.server.client_auth if self.protocol == SSL else NONE

    def setting(self, key: str) -> str | None:
        """Return the setting that applies to this listener, None where it is not given."""
        return self.own.get(key, self.common.get(key))

    def client(self, properties: Mapping[str, str]) -> ClientSecurity:
        """Return how another broker connects to this listener.

        Raises:
            ConfigError: a login is needed, and none is set.
        """
        login = None
        if self.sasl is not None:
            found = inter_broker_mechanism(self.sasl, properties)
            login = SaslLogin(mechanism=found.name, line=found.line)
        return ClientSecurity(protocol=self.protocol, tls=self.tls, sasl=login)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """How the listeners of a broker are protected.

    Attributes:
        listeners: by name, in the order in which they are given.
        inter_broker: name of the listener that brokers use among themselves.
        client: how this broker connects to others.
    """

    listeners: Mapping[str, ListenerSecurity] = field(default_factory=dict)
    inter_broker: str = ""
    client: ClientSecurity = NO_SECURITY

    @classmethod
    def of(
        cls,
        properties: Mapping[str, str],
        endpoints: Iterable[Endpoint],
        inter_broker: str,
        *,
        warn: Callable[[str], None],
    ) -> "BrokerSecurity":
        """Build it from the properties of a broker.

        Args:
            properties: all of them.
            endpoints: the listeners.
            inter_broker: name of the listener for other brokers.
            warn: receives each warning.

        Raises:
            ConfigError: a value is not allowed, or what a protocol needs is missing.
        """
        common = {key: text for key, text in properties.items() if key.startswith(_GLOBAL)}
        found: dict[str, ListenerSecurity] = {}
        for endpoint in endpoints:
            found[endpoint.name] = _listener(endpoint, properties, common, warn)
        for key in properties:
            if key.startswith(PREFIX):
                _check_prefixed(key, found, warn)
        if not any(each.has_tls for each in found.values()):
            for key in common.keys() & TLS_KEYS:
                warn(f"config key={key} has no effect: all listeners are plain, none is SSL")
        if not any(each.has_login for each in found.values()):
            for key in common.keys() & SASL_KEYS:
                warn(f"config key={key} has no effect: no listener has a SASL_ protocol")
        used = found.get(inter_broker)
        client = NO_SECURITY if used is None else used.client(properties)
        return cls(listeners=found, inter_broker=inter_broker, client=client)


def _listener(
    endpoint: Endpoint,
    properties: Mapping[str, str],
    common: Mapping[str, str],
    warn: Callable[[str], None],
) -> ListenerSecurity:
    prefix = f"{PREFIX}{endpoint.name.lower()}."
    own = {key[len(prefix) :]: text for key, text in properties.items() if key.startswith(prefix)}
    made = ListenerSecurity(name=endpoint.name, protocol=endpoint.protocol, own=own, common=common)
    if made.has_login:
        made = replace(made, sasl=listener_sasl(endpoint.name, properties, warn=warn))
    if not made.has_tls:
        return made
    tls, server = server_tls({**common, **own}, f"listener {endpoint.name}")
    if not tls.has_key:
        raise ConfigError(
            f"listener {endpoint.name} speaks {endpoint.protocol} and has no key: set "
            f"ssl.keystore.location (or {prefix}ssl.keystore.location) to a PEM file with the "
            "private key and its certificates"
        )
    made = replace(made, tls=tls, server=server)
    if made.client_auth != NONE and not tls.has_authorities:
        raise ConfigError(
            f"listener {endpoint.name}: ssl.client.auth={made.client_auth} needs "
            "ssl.truststore.location: the authorities that sign clients' certificates"
        )
    return made


def server_tls(properties: Mapping[str, str], where: str) -> tuple[TlsSettings, ServerTlsOptions]:
    """Read the keys of a listener, and what it asks of clients.

    Args:
        properties: `ssl.` settings of this listener, and any others.
        where: the listener, for messages.

    Raises:
        ConfigError: a value is not allowed.
    """
    try:
        return (
            from_properties(TlsSettings, of_group(TlsSettings, properties), warn=quiet),
            from_properties(ServerTlsOptions, of_group(ServerTlsOptions, properties), warn=quiet),
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _check_prefixed(
    key: str, listeners: Mapping[str, ListenerSecurity], warn: Callable[[str], None]
) -> None:
    rest = key[len(PREFIX) :]
    # The longest match: one listener's name may be the beginning of another's.
    names = [each for each in listeners if rest.startswith(f"{each.lower()}.")]
    name = max(names, key=len, default=None)
    if name is None:
        first = rest.partition(".")[0]
        if first.upper() in listeners:
            raise ConfigError(
                f"{key} has no effect: names of listeners are written in lower case after "
                f"{PREFIX}: {PREFIX}{first.lower()}.…"
            )
        warn(
            f"config key={key} has no effect: listeners are {', '.join(listeners)}, and none is "
            f"called {first.upper()}"
        )
        return
    setting = rest[len(name) + 1 :]
    mechanism, _, of_mechanism = setting.partition(".")
    if setting not in _KNOWN and not (mechanism in _MECHANISMS and of_mechanism in _OF_MECHANISMS):
        known = [f"{PREFIX}{name.lower()}.{each}" for each in _KNOWN]
        known += [
            f"{PREFIX}{name.lower()}.{each}.{of}" for each in _MECHANISMS for of in _OF_MECHANISMS
        ]
        warn(f"config key={key} is unknown and ignored{nearest(key, known)}")
    if setting in TLS_KEYS and not listeners[name].has_tls:
        warn(f"config key={key} has no effect: listener {name} speaks {listeners[name].protocol}")


TLS_KEYS = keys(TlsSettings, ServerTlsOptions)
"""Settings of a listener's TLS."""
_OF_MECHANISMS = SASL_KEYS | {JAAS}
_MECHANISMS = frozenset(name.lower() for name in MODULES)
_KNOWN = TLS_KEYS | TlsSettings.IGNORED.keys() | SASL_KEYS | {CONNECTION_RATE}
