"""SCRAM (RFC 5802, RFC 7677): what both sides compute, and what is stored of a user.

    SaltedPassword  = PBKDF2(password, salt, iterations)
    ClientKey       = HMAC(SaltedPassword, "Client Key")       StoredKey = H(ClientKey)
    ServerKey       = HMAC(SaltedPassword, "Server Key")
    AuthMessage     = client-first-bare , server-first , client-final-without-proof
    ClientProof     = ClientKey XOR HMAC(StoredKey, AuthMessage)
    ServerSignature = HMAC(ServerKey, AuthMessage)

As stored in ZooKeeper, all four, in any order:

    salt=base64,stored_key=base64,server_key=base64,iterations=n

Invariant: a stored credential reveals no password, and is not enough for a login.
Names and passwords are UTF-8; there is no SASLprep, as in Kafka.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from zkbroker.errors import ConfigError
from zkbroker.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 2_000_000
"""More would let a broker keep its clients busy for seconds."""

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
NONCE_BITS = 130
"""As genuine sides draw them, for nonces and salts."""
_FIELDS = ("salt", "stored_key", "server_key", "iterations")
_ITERATIONS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class ScramHash:
    """The hash functions of one mechanism.

    Args:
        mechanism: its name.
        digest: name of the hash, for `hashlib`.
        size: of the hash, in bytes.
    """

    mechanism: str
    digest: str
    size: int

    def hash(self, data: bytes) -> bytes:
        """H of the RFC."""
        return hashlib.new(self.digest, data).digest()

    def mac(self, key: bytes, data: bytes) -> bytes:
        """HMAC of the RFC."""
        return hmac.digest(key, data, self.digest)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """PBKDF2: takes about a millisecond for each thousand iterations."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)


SHA_256 = ScramHash(SCRAM_SHA_256, "sha256", 32)
SHA_512 = ScramHash(SCRAM_SHA_512, "sha512", 64)
HASHES = {SCRAM_SHA_256: SHA_256, SCRAM_SHA_512: SHA_512}
"""Name of the mechanism → its hash functions."""


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is stored of a user for one mechanism; the keys are not shown."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int = MIN_ITERATIONS

    def text(self) -> str:
        """The credential as it stands in ZooKeeper."""
        return (
            f"salt={_encoded(self.salt)},stored_key={_encoded(self.stored_key)},"
            f"server_key={_encoded(self.server_key)},iterations={self.iterations}"
        )


def nonce() -> str:
    """Return a fresh random text of about 26 letters and digits, as genuine sides make it."""
    return base36(secrets.randbits(NONCE_BITS))


def base36(number: int) -> str:
    """Return a number in letters and digits."""
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text


def make_credential(
    hashes: ScramHash,
    password: str,
    iterations: int = MIN_ITERATIONS,
    salt: Callable[[], bytes] = lambda: nonce().encode(),
) -> ScramCredential:
    """Make what is stored of a new password.

    Args:
        hashes: of the mechanism.
        password: not empty.
        iterations: from 4096 on.
        salt: makes a fresh one.

    Raises:
        ConfigError: too few or too many iterations, or no password.
    """
    if iterations < MIN_ITERATIONS:
        raise ConfigError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for "
            f"{hashes.mechanism}"
        )
    if iterations > MAX_ITERATIONS:
        raise ConfigError(
            f"iterations={iterations} is not allowed: give at most {MAX_ITERATIONS}, or each "
            "login takes seconds"
        )
    if not password:
        raise ConfigError("the password is empty: give one")
    fresh = salt()
    salted = hashes.salted_password(password, fresh, iterations)
    return ScramCredential(
        salt=fresh,
        stored_key=hashes.hash(hashes.mac(salted, b"Client Key")),
        server_key=hashes.mac(salted, b"Server Key"),
        iterations=iterations,
    )


def parse_credential(text: str, hashes: ScramHash) -> ScramCredential:
    """Parse a credential as it stands in ZooKeeper.

    Raises:
        ValueError: it is none, or has too few iterations; the message holds no key.
    """
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in _FIELDS or name in values:
            raise ValueError(f"a credential has the fields {', '.join(_FIELDS)}, once each")
        values[name] = value
    missing = [name for name in _FIELDS if name not in values]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    if not _ITERATIONS.fullmatch(values["iterations"]):
        raise ValueError("iterations is not a number")
    iterations = int(values["iterations"])
    if iterations < MIN_ITERATIONS:
        raise ValueError(f"iterations={iterations}, at least {MIN_ITERATIONS} are required")
    salt, stored, server = (_decoded(name, values[name]) for name in _FIELDS[:3])
    if not salt or len(stored) != hashes.size or len(server) != hashes.size:
        raise ValueError(f"its keys are not those of {hashes.mechanism}")
    return ScramCredential(salt, stored, server, iterations)


def escaped_name(user: str) -> str:
    """Return a user as messages of SCRAM and OAUTHBEARER carry it."""
    return user.replace("=", "=3D").replace(",", "=2C")


def unescaped_name(text: str) -> str:
    """Return the user that a message names.

    Raises:
        ValueError: an equals sign begins no escape.
    """
    if re.search("=(?!2C|3D)", text):
        raise ValueError("an equals sign begins no escape")
    return text.replace("=2C", ",").replace("=3D", "=")


def xor(one: bytes, other: bytes) -> bytes:
    """Exclusive or of two texts of one length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{name} is not base64") from None
