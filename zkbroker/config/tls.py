"""Settings of TLS: keys, certificates, authorities, versions; of a client and of a listener.

    one file        ssl.keystore.location       PEM with key and chain, or PKCS#12
    inline          ssl.keystore.key, ssl.keystore.certificate.chain
    two files       ssl.key.location, ssl.certificate.location (librdkafka)

Invariant: the private key is given in one way, and no two settings contradict each other. Every
secret is a `Secret`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from zkbroker.config import schema
from zkbroker.config.schema import Bool, Str, StrList, option
from zkbroker.config.secret import NO_SECRET, Secret, SecretText
from zkbroker.errors import ConfigError

TLS_VERSIONS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
DEFAULT_VERSIONS = ("TLSv1.2", "TLSv1.3")
STORE_TYPES = ("", "PEM", "PKCS12", "JKS")
CHECK_HOST = "https"
_BY_PYTHON = "Python's ssl module decides it"


@dataclass(frozen=True, slots=True)
class Versions(StrList):
    """Some of the versions of TLS."""

    def parse(self, text: str) -> tuple[str, ...]:
        known = {version.lower(): version for version in TLS_VERSIONS}
        return tuple(known.get(part.lower(), part) for part in StrList.parse(self, text))

    def accepts(self, value: Any) -> bool:
        return StrList.accepts(self, value) and set(value) <= set(TLS_VERSIONS)

    @property
    def allowed(self) -> str:
        return f"some of {', '.join(TLS_VERSIONS)}, separated by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Keys, certificates and protocol versions: of a client, and of a broker's listener."""

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
    keystore_type: str = option("ssl.keystore.type", Str(STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given. JKS must be converted.")
    keystore_password: Secret = option("ssl.keystore.password", SecretText(), NO_SECRET,
        "Password of a PKCS#12 file.")
    key_password: Secret = option("ssl.key.password", SecretText(), NO_SECRET,
        "Password of an encrypted private key.")
    keystore_key: Secret = option("ssl.keystore.key ssl.key.pem", SecretText(), NO_SECRET,
        "The private key itself, as PEM text (PKCS#8).")
    keystore_chain: str = option(
        "ssl.keystore.certificate.chain ssl.certificate.pem", Str(), "",
        "The certificates themselves, as PEM text, one's own first.")
    certificate_location: str = option("ssl.certificate.location", Str(), "",
        "PEM file with the certificates, where the key is in ssl.key.location.")
    key_location: str = option("ssl.key.location", Str(), "",
        "PEM file with the private key.")
    truststore_location: str = option("ssl.truststore.location ssl.ca.location", Str(), "",
        "File with the certificates of trusted authorities: PEM or PKCS#12. By default the "
        "system's authorities are trusted.")
    truststore_type: str = option("ssl.truststore.type", Str(STORE_TYPES), "",
        "PEM or PKCS12; the file's content decides where it is not given.")
    truststore_password: Secret = option("ssl.truststore.password", SecretText(), NO_SECRET,
        "Password of a PKCS#12 file with authorities.")
    truststore_certificates: str = option("ssl.truststore.certificates ssl.ca.pem", Str(), "",
        "The trusted certificates themselves, as PEM text.")
    versions: tuple[str, ...] = option("ssl.enabled.protocols", Versions(1), DEFAULT_VERSIONS,
        "Versions of TLS that may be spoken. TLSv1 and TLSv1.1 are broken: name them only for "
        "peers that know no other.")
    cipher_suites: tuple[str, ...] = option("ssl.cipher.suites", StrList(), (),
        "Cipher suites that may be used, by their standard names or OpenSSL's; by default OpenSSL "
        "chooses.")
    host_check: str = option(
        "ssl.endpoint.identification.algorithm",
        Str((CHECK_HOST, ""), spellings={"none": ""}), CHECK_HOST,
        "https: the peer's certificate must be for the host that was connected to. Empty (or none) "
        "leaves that out: any holder of a certificate of a trusted authority may pose as the "
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
