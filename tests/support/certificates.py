"""Certificates for tests, made as they are needed: authorities, brokers and clients.

authority = Authority()
broker = authority.issue("broker", hosts=["localhost", "127.0.0.1"])
broker.pem(directory)            one PEM file: key and chain
authority.pem(directory)         what clients trust
"""

import datetime as dt
import ipaddress
import itertools
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)
_NO_TIME = dt.timedelta()
_NUMBERS = itertools.count(1)
LOCAL = ("localhost", "127.0.0.1")


def _name(subject: str) -> x509.Name:
    """Parse `CN=a,OU=b`, written as RFC 2253 has it; a bare text is a common name."""
    if "=" not in subject:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return x509.Name.from_rfc4514_string(subject)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass
class Certificate:
    """A private key and its certificates, the own one first."""

    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    chain: list[x509.Certificate]
    number: int = field(default_factory=lambda: next(_NUMBERS))

    def key_pem(self, password: str = "") -> str:
        """The private key, PKCS#8, encrypted where a password is given."""
        encryption: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        ).decode()

    def chain_pem(self) -> str:
        """The certificates."""
        encoding = serialization.Encoding.PEM
        return "".join(each.public_bytes(encoding).decode() for each in self.chain)

    def pem(self, directory: Path, name: str = "", password: str = "") -> str:
        """Write key and certificates into one file."""
        return _write(
            directory / (name or f"key-{self.number}.pem"),
            (self.key_pem(password) + self.chain_pem()).encode(),
        )

    def files(self, directory: Path) -> tuple[str, str]:
        """Write certificates and key into two files."""
        return (
            _write(directory / f"chain-{self.number}.pem", self.chain_pem().encode()),
            _write(directory / f"alone-{self.number}.pem", self.key_pem().encode()),
        )

    def pkcs12(self, directory: Path, password: str) -> str:
        """Write a PKCS#12 file."""
        data = pkcs12.serialize_key_and_certificates(
            b"own",
            self.key,
            self.chain[0],
            self.chain[1:] or None,
            serialization.BestAvailableEncryption(password.encode()),
        )
        return _write(directory / f"key-{self.number}.p12", data)


class Authority(Certificate):
    """A certificate authority.

    Args:
        subject: of its certificate.
    """

    def __init__(self, subject: str = "Test Authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        own = (
            _builder(_name(subject), _name(subject), key.public_key(), _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        super().__init__(key, [own])

    def issue(
        self,
        subject: str,
        *,
        hosts: tuple[str, ...] = LOCAL,
        days: float = 1,
        starts_days: float = 0,
        rsa_key: bool = False,
        usage: bool = False,
    ) -> Certificate:
        """Issue a certificate.

        Args:
            subject: `CN=a,OU=b`, or a common name.
            hosts: names and addresses that it is for.
            days: until it expires, below 0 for one that has.
            starts_days: until it begins.
            rsa_key: an RSA key in place of an EC one.
            usage: for clients only.
        """
        key = (
            rsa.generate_private_key(65537, 2048)
            if rsa_key
            else ec.generate_private_key(ec.SECP256R1())
        )
        builder = _builder(
            _name(subject),
            self.chain[0].subject,
            key.public_key(),
            dt.timedelta(days=days),
            dt.timedelta(days=starts_days),
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        if usage:
            builder = builder.add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
            )
        return Certificate(key, [builder.sign(self.key, hashes.SHA256())])

    def trusted(self, directory: Path) -> str:
        """Write a truststore with this authority, as PEM."""
        return _write(directory / f"trusted-{self.number}.pem", self.chain_pem().encode())

    def trusted_pkcs12(self, directory: Path, password: str) -> str:
        """Write a truststore with this authority, as PKCS#12."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.chain[0], b"authority")], encryption
        )
        return _write(directory / f"trusted-{self.number}.p12", data)


def self_signed(subject: str = "broker", hosts: tuple[str, ...] = LOCAL) -> Certificate:
    """Make a certificate that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(subject), _name(subject), key.public_key(), _DAY).add_extension(
        x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
    )
    return Certificate(key, [builder.sign(key, hashes.SHA256())])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    lasts: dt.timedelta,
    starts: dt.timedelta = _NO_TIME,
) -> x509.CertificateBuilder:
    first = _now() - 10 * _DAY if not starts else _now() + starts
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(max(_now(), first) + lasts)
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    path.chmod(0o600)
    return str(path)
