"""How clients connect to ZooKeeper: the login, TLS, and the rights on new nodes.

    zookeeper.auth.digest             user:password of ZooKeeper's own scheme `digest`
    zookeeper.sasl.jaas.config        one DigestLoginModule line, or
    java.security.auth.login.config   a JAAS file, of which the section `Client` counts
    zookeeper.ssl.*                   TLS, as Kafka 2.5 and newer name it
    zookeeper.set.acl                 new nodes are changed by this login alone

Brokers have this group of options, and every client and tool that uses ZooKeeper.

Invariant: each setting is honoured or refused; a session never has less protection than its
settings say. Only the login itself reveals a password from its `Secret`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from zkbroker.config.jaas import JaasLine, load_jaas_file, parse_jaas_line
from zkbroker.config.schema import Bool, Str, StrList, from_properties, keys, option, validate
from zkbroker.config.secret import NO_SECRET, Secret, SecretText
from zkbroker.config.tls import (
    CHECK_HOST,
    DEFAULT_VERSIONS,
    STORE_TYPES,
    TlsSettings,
    Versions,
)
from zkbroker.errors import ConfigError

JAAS_FILE: Final = "java.security.auth.login.config"
DIGEST_MODULE: Final = "DigestLoginModule"
JAAS_EXAMPLE: Final = (
    'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="...";'
)
IGNORED: Final[Mapping[str, str]] = {
    "zookeeper.clientCnxnSocket": "zookeeper.ssl.client.enable says whether TLS is used",
    "zookeeper.ssl.protocol": "zookeeper.ssl.enabled.protocols says which versions are spoken",
    "zookeeper.ssl.crl.enable": "lists of revoked certificates are not read",
    "zookeeper.ssl.ocsp.enable": "revoked certificates are not looked up",
}
"""Properties of genuine brokers beside them that have no effect, with the reason."""
_KERBEROS = "Krb5LoginModule"


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """A user with a password."""

    user: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSecurity:
    """How a session is protected.

    Args:
        digest: the login of the scheme `digest`, None for none.
        sasl: the login by SASL DIGEST-MD5, None for none.
        tls: keys and authorities, None for a plain connection.
        set_acl: whether new nodes belong to the login alone.
    """

    digest: ZooKeeperLogin | None = None
    sasl: ZooKeeperLogin | None = None
    tls: TlsSettings | None = None
    set_acl: bool = False

    @property
    def logins(self) -> str:
        """The logins for messages, without passwords; empty where there is none."""
        found = []
        if self.sasl is not None:
            found.append(f"{self.sasl.user} (SASL)")
        if self.digest is not None:
            found.append(f"{self.digest.user} (digest)")
        if self.tls is not None and self.tls.has_key:
            found.append("a certificate (TLS)")
        return " and ".join(found)


UNPROTECTED: Final = ZooKeeperSecurity()
"""The default: a session without a login."""


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSecurityOptions:
    """The options of this group; configurations inherit them, or are built beside them."""

    # fmt: off
    zookeeper_auth_digest: Secret = option("zookeeper.auth.digest", SecretText(), NO_SECRET,
        "Login at ZooKeeper as `user:password`, by its scheme `digest`. ZooKeeper knows no list of "
        "such users: this login has the rights on the nodes that it made.")
    zookeeper_sasl_jaas: Secret = option("zookeeper.sasl.jaas.config", SecretText(), NO_SECRET,
        f"Login at ZooKeeper by SASL (DIGEST-MD5): `{JAAS_EXAMPLE}`")
    zookeeper_sasl_client: bool = option("zookeeper.sasl.client", Bool(), True,
        "Whether to log in at ZooKeeper by SASL where the JAAS file has a section for it.")
    zookeeper_sasl_context: str = option("zookeeper.sasl.clientconfig", Str(empty=False), "Client",
        "Section of the JAAS file with the login at ZooKeeper.")
    zookeeper_set_acl: bool = option("zookeeper.set.acl", Bool(), False,
        "Whether only this login can change the nodes that it creates in ZooKeeper. Everybody may "
        "read them, except `/config/users`, `/config/brokers` and delegation tokens; "
        "`/consumers` stays open.")
    zookeeper_tls: bool = option("zookeeper.ssl.client.enable", Bool(), False,
        "Whether to connect to ZooKeeper by TLS, which has a port of its own there.")
    zookeeper_keystore: str = option("zookeeper.ssl.keystore.location", Str(), "",
        "File with the key and certificate to show to ZooKeeper: PEM or PKCS#12.")
    zookeeper_keystore_type: str = option("zookeeper.ssl.keystore.type", Str(STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given.")
    zookeeper_keystore_password: Secret = option(
        "zookeeper.ssl.keystore.password", SecretText(), NO_SECRET,
        "Password of that file, or of the private key in it.")
    zookeeper_truststore: str = option("zookeeper.ssl.truststore.location", Str(), "",
        "File with the authorities that ZooKeeper's certificate may be signed by: PEM or PKCS#12. "
        "By default the system's.")
    zookeeper_truststore_type: str = option("zookeeper.ssl.truststore.type", Str(STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given.")
    zookeeper_truststore_password: Secret = option(
        "zookeeper.ssl.truststore.password", SecretText(), NO_SECRET, "Password of that file.")
    zookeeper_tls_versions: tuple[str, ...] = option(
        "zookeeper.ssl.enabled.protocols", Versions(1), DEFAULT_VERSIONS,
        "Versions of TLS that may be spoken with ZooKeeper.")
    zookeeper_ciphers: tuple[str, ...] = option("zookeeper.ssl.cipher.suites", StrList(), (),
        "Cipher suites that may be used with ZooKeeper; OpenSSL's choice where none are given.")
    zookeeper_host_check: str = option(
        "zookeeper.ssl.endpoint.identification.algorithm",
        Str((CHECK_HOST, ""), spellings={"none": ""}), CHECK_HOST,
        "https: ZooKeeper's certificate must be for the host that is connected to. Empty (or none) "
        "leaves that out.")
    jaas_file: str = option(JAAS_FILE, Str(), "",
        "JAAS file with logins: the section `Client` at ZooKeeper, the section `KafkaServer` those "
        "of a broker and its users.")
    # fmt: on

    def zookeeper_security(self) -> ZooKeeperSecurity:
        """Return the protection of a session; reads the JAAS file.

        Raises:
            ConfigError: a login cannot be read, or rights are to be set without one.
        """
        security = ZooKeeperSecurity(
            digest=_digest(self.zookeeper_auth_digest),
            sasl=self._sasl(),
            tls=self._tls(),
            set_acl=self.zookeeper_set_acl,
        )
        if security.set_acl and not security.logins:
            raise ConfigError(
                "zookeeper.set.acl=true needs a login at ZooKeeper, or no client could change the "
                "nodes: set zookeeper.sasl.jaas.config (or a JAAS file with a section "
                f"{self.zookeeper_sasl_context} in {JAAS_FILE}) or zookeeper.auth.digest, or leave "
                "zookeeper.set.acl out"
            )
        return security

    def _tls(self) -> TlsSettings | None:
        if not self.zookeeper_tls:
            given = [
                key
                for key, value in (
                    ("zookeeper.ssl.keystore.location", self.zookeeper_keystore),
                    ("zookeeper.ssl.truststore.location", self.zookeeper_truststore),
                )
                if value
            ]
            if given:
                raise ConfigError(
                    f"{given[0]} is set, and ZooKeeper would be connected to without TLS: set "
                    "zookeeper.ssl.client.enable=true, or leave it out"
                )
            return None
        return TlsSettings(
            keystore_location=self.zookeeper_keystore,
            keystore_type=self.zookeeper_keystore_type,
            keystore_password=self.zookeeper_keystore_password,
            key_password=self.zookeeper_keystore_password,
            truststore_location=self.zookeeper_truststore,
            truststore_type=self.zookeeper_truststore_type,
            truststore_password=self.zookeeper_truststore_password,
            versions=self.zookeeper_tls_versions,
            cipher_suites=self.zookeeper_ciphers,
            host_check=self.zookeeper_host_check,
        )

    def _sasl(self) -> ZooKeeperLogin | None:
        if not self.zookeeper_sasl_client:
            return None
        key = "zookeeper.sasl.jaas.config"
        if self.zookeeper_sasl_jaas:
            return _sasl_login(parse_jaas_line(self.zookeeper_sasl_jaas.reveal(), key), key)
        if not self.jaas_file:
            return None
        lines = load_jaas_file(self.jaas_file).get(self.zookeeper_sasl_context)
        where = f"section {self.zookeeper_sasl_context} of {self.jaas_file}"
        if lines is None:
            return None
        if len(lines) != 1:
            raise ConfigError(f"{where} must hold one login module: {JAAS_EXAMPLE}")
        return _sasl_login(lines[0], where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperClientSettings(ZooKeeperSecurityOptions):
    """The options of this group alone: of tools, and of clients in Python."""

    IGNORED: ClassVar[Mapping[str, str]] = IGNORED

    def __post_init__(self) -> None:
        validate(self)


KEYS: Final = keys(ZooKeeperClientSettings)
"""Every property of this group."""


def is_zookeeper_security(key: str) -> bool:
    """Whether a property belongs to this group."""
    return key in KEYS or key in IGNORED


def take_zookeeper_security(
    properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
) -> tuple[ZooKeeperSecurity, dict[str, str]]:
    """Take the properties of this group out of all properties of a client.

    Args:
        properties: key → text, this group's and others.
        warn: receives each warning; the module's logger by default.

    Returns:
        How ZooKeeper is connected to, and the properties that are left.

    Raises:
        ConfigError: a value is not allowed, or a login cannot be read.
    """
    rest = {k: value for k, value in properties.items() if not is_zookeeper_security(k)}
    if len(rest) == len(properties):
        return UNPROTECTED, rest
    own = {k: value for k, value in properties.items() if is_zookeeper_security(k)}
    return from_properties(ZooKeeperClientSettings, own, warn=warn).zookeeper_security(), rest


def _digest(given: Secret) -> ZooKeeperLogin | None:
    if not given:
        return None
    user, colon, password = given.reveal().strip().partition(":")
    if not (user and colon and password):
        raise ConfigError(
            "zookeeper.auth.digest is not user:password; give both, with a colon between them"
        )
    return ZooKeeperLogin(user, Secret(password))


def _sasl_login(line: JaasLine, where: str) -> ZooKeeperLogin:
    if line.kind == _KERBEROS:
        raise ConfigError(
            f"{where} asks for Kerberos, which is not supported: use DIGEST-MD5: {JAAS_EXAMPLE}"
        )
    if line.kind != DIGEST_MODULE:
        raise ConfigError(
            f"{where} names {line.module}, which is no login at ZooKeeper: {JAAS_EXAMPLE}"
        )
    user, password = line.options.get("username", ""), line.options.get("password", "")
    if not user or not password:
        missing = "a password" if user else "a username"
        raise ConfigError(f"{where} gives {missing} no value: {JAAS_EXAMPLE}")
    if not (user + password).isascii():
        raise ConfigError(
            f"{where}: DIGEST-MD5 knows ASCII letters only; choose another user name or password"
        )
    return ZooKeeperLogin(user, Secret(password))
