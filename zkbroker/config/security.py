"""How clients connect: plain or by TLS, anonymous or with a login.

    security.protocol   TLS   login
    PLAINTEXT           -     -          the default
    SSL                 yes   -          or by a certificate of the client
    SASL_PLAINTEXT      -     yes
    SASL_SSL            yes   yes

These settings are one group of options that every client has: the names are those of Kafka's
clients (2.1, PEM since 2.7) and librdkafka's, the first one given counts.

Invariant: what was asked for is done or refused; a connection is never less protected than its
settings say. Whatever is secret is a `Secret`.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from zkbroker.config import schema
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.schema import Bool, Str, StrList, option
from zkbroker.config.secret import NO_SECRET, Secret, SecretText
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)

TLS_VERSIONS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_DEFAULT_VERSIONS = ("TLSv1.2", "TLSv1.3")
_STORE_TYPES = ("", "PEM", "PKCS12", "JKS")
_CHECK_HOST = "https"
_BY_PYTHON = "Python's ssl module decides it"


@dataclass(frozen=True, slots=True)
class _Versions(StrList):
    """Some of the versions of TLS."""

    def parse(self, text: str) -> tuple[str, ...]:
        known = {version.lower(): version for version in TLS_VERSIONS}
        return tuple(known.get(part.lower(), part) for part in StrList.parse(self, text))

    def check(self, value: object) -> None:
        StrList.check(self, value)
        assert isinstance(value, tuple)
        if not set(value) <= set(TLS_VERSIONS):
            raise ValueError

    @property
    def allowed(self) -> str:
        return f"some of {', '.join(TLS_VERSIONS)}, separated by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Keys, certificates and what is spoken with them: of a client, and of a broker's listener."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "ssl.protocol": "ssl.enabled.protocols says which versions are spoken",
        "ssl.provider": _BY_PYTHON,
        "ssl.keymanager.algorithm": _BY_PYTHON,
        "ssl.trustmanager.algorithm": _BY_PYTHON,
        "ssl.secure.random.implementation": _BY_PYTHON,
    }

    # fmt: off
    keystore_location: str = option("ssl.keystore.location", Str(), "",
        "File with the private key and its certificates: PEM, or PKCS#12 (extra `security`).")
    keystore_type: str = option("ssl.keystore.type", Str(_STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given. JKS must be converted.")
    keystore_password: Secret = option("ssl.keystore.password", SecretText(), NO_SECRET,
        "Password of a PKCS#12 file.")
    key_password: Secret = option("ssl.key.password", SecretText(), NO_SECRET,
        "Password of an encrypted private key.")
    keystore_key: Secret = option("ssl.keystore.key ssl.key.pem", SecretText(), NO_SECRET,
        "The private key itself, as PEM text (PKCS#8).")
    keystore_chain: str = option(
        "ssl.keystore.certificate.chain ssl.certificate.pem", Str(), "",
        "The certificates themselves, as PEM text, the own one first.")
    certificate_location: str = option("ssl.certificate.location", Str(), "",
        "PEM file with the certificates, where the key stands in ssl.key.location.")
    key_location: str = option("ssl.key.location", Str(), "",
        "PEM file with the private key.")
    truststore_location: str = option("ssl.truststore.location ssl.ca.location", Str(), "",
        "File with the certificates of authorities that are trusted: PEM or PKCS#12. The system's "
        "authorities where none are given.")
    truststore_type: str = option("ssl.truststore.type", Str(_STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given.")
    truststore_password: Secret = option("ssl.truststore.password", SecretText(), NO_SECRET,
        "Password of a PKCS#12 file with authorities.")
    truststore_certificates: str = option("ssl.truststore.certificates ssl.ca.pem", Str(), "",
        "The trusted certificates themselves, as PEM text.")
    versions: tuple[str, ...] = option("ssl.enabled.protocols", _Versions(1), _DEFAULT_VERSIONS,
        "Versions of TLS that may be spoken. TLSv1 and TLSv1.1 are broken: name them only for "
        "peers that know no other.")
    cipher_suites: tuple[str, ...] = option("ssl.cipher.suites", StrList(), (),
        "Cipher suites that may be used, by their standard names or OpenSSL's; OpenSSL's choice "
        "where none are given.")
    host_check: str = option(
        "ssl.endpoint.identification.algorithm",
        Str((_CHECK_HOST, ""), spellings={"none": ""}), _CHECK_HOST,
        "https: the peer's certificate must be for the host that was connected to. Empty (or none) "
        "leaves that out: whoever has a certificate of a trusted authority may pose as the "
        "broker.")
    verify: bool = option("enable.ssl.certificate.verification", Bool(), True,
        "Whether the broker's certificate is verified. false: anybody may pose as the broker.")
    # fmt: on

    def __post_init__(self) -> None:
        schema.validate(self)
        ways = [
            name
            for name, given in (
                ("ssl.keystore.location", self.keystore_location),
                ("ssl.keystore.key", self.keystore_key),
                ("ssl.key.location", self.key_location),
            )
            if given
        ]
        if len(ways) > 1:
            raise ConfigError(f"{' and '.join(ways)} are both set: give the private key in one way")
        if bool(self.keystore_key) != bool(self.keystore_chain):
            missing, given = "ssl.keystore.certificate.chain", "ssl.keystore.key"
            if self.keystore_chain:
                missing, given = given, missing
            raise ConfigError(f"{given} needs {missing} beside it, as PEM text")
        if bool(self.key_location) != bool(self.certificate_location):
            missing, given = "ssl.certificate.location", "ssl.key.location"
            if self.certificate_location:
                missing, given = given, missing
            raise ConfigError(f"{given} needs {missing} beside it")
        if self.truststore_location and self.truststore_certificates:
            raise ConfigError(
                "ssl.truststore.location and ssl.truststore.certificates are both set: give one"
            )

    @property
    def has_key(self) -> bool:
        """Whether there is a private key."""
        return bool(self.keystore_location or self.keystore_key or self.key_location)

    @property
    def has_authorities(self) -> bool:
        """Whether trusted authorities are given."""
        return bool(self.truststore_location or self.truststore_certificates)

    @property
    def checks_host(self) -> bool:
        """Whether a certificate must be for the host that was connected to."""
        return bool(self.host_check) and self.verify

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        named = (
            self.keystore_location,
            self.certificate_location,
            self.key_location,
            self.truststore_location,
        )
        return tuple(name for name in named if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurity:
    """How a client connects to brokers.

    Attributes:
        protocol: one of `PROTOCOLS`.
        tls: keys and authorities, where the protocol has TLS.
        sasl: the login; None where the protocol has none.
    """

    # fmt: off
    protocol: str = option("security.protocol", Str(PROTOCOLS), PLAINTEXT,
        "How brokers are spoken to: plain or by TLS (SSL), and with a login (SASL_).")
    # fmt: on
    tls: TlsSettings = field(default_factory=TlsSettings)
    sasl: SaslLogin | None = None

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
"""Plain connections without a login: what a client has where nothing is set."""

_GROUPS = (ClientSecurity, TlsSettings, SaslLogin)
KEYS: Final = frozenset(
    key for group in _GROUPS for _, each in schema.options(group) for key, _ in each.keys
)
"""Every property of this group that does something."""
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
    return key in KEYS or key.startswith(_PREFIXES)


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
    own: dict[str, str] = {}
    rest: dict[str, str] = {}
    for key, value in properties.items():
        (own if is_security(key) else rest)[key] = value
    if not own:
        return NO_SECURITY, rest
    report = warn if warn is not None else logger.warning
    for key, reason in _REFUSED.items():
        if own.get(key):
            raise ConfigError(f"{key} is not supported: {reason}")
    given = {group: _of(group, own) for group in _GROUPS}
    tls = schema.from_properties(TlsSettings, given[TlsSettings], warn=report)
    protocol = schema.from_properties(_ProtocolOnly, given[ClientSecurity], warn=report).protocol
    for key in own:
        if key not in KEYS and key not in TlsSettings.IGNORED:
            hint = schema.nearest(key, KEYS)
            report(f"config key={key} is unknown and ignored{hint}")
    has_login = protocol in (SASL_PLAINTEXT, SASL_SSL)
    if given[SaslLogin] and not has_login:
        report(
            f"config key={next(iter(given[SaslLogin]))} has no effect with "
            f"security.protocol={protocol}: set SASL_SSL or SASL_PLAINTEXT"
        )
    if given[TlsSettings] and protocol not in (SSL, SASL_SSL):
        report(
            f"config key={next(iter(given[TlsSettings]))} has no effect with "
            f"security.protocol={protocol}: set SSL or SASL_SSL"
        )
    sasl = None
    if has_login and given[SaslLogin]:
        sasl = schema.from_properties(SaslLogin, given[SaslLogin], warn=report)
    return ClientSecurity(protocol=protocol, tls=tls, sasl=sasl), rest


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProtocolOnly:
    protocol: str = option(
        "security.protocol", Str(PROTOCOLS), PLAINTEXT, "As of `ClientSecurity`."
    )


def _of(group: type, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a group of options has, and those that it names as ignored."""
    keys = {key for _, each in schema.options(group) for key, _ in each.keys}
    keys.update(getattr(group, "IGNORED", {}))
    return {key: value for key, value in properties.items() if key in keys}
