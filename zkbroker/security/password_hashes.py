"""Password hashes: creation, one-line text form, and comparison.

    user:$pbkdf2-sha256$iterations$salt$hash

The hash is PBKDF2 with HMAC-SHA-256; salt and hash are base64 in passlib's form, with `.` for `+`
and without padding, so that other tools can also make these lines.

Invariant: a comparison takes the same time for a known and an unknown user, and does not reveal how
much of a password was right.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkbroker.errors import ConfigError

SCHEME = "pbkdf2-sha256"
ITERATIONS = 600_000
"""OWASP's number for HMAC-SHA-256 (2023); some 0.3 s of one core."""
_MOST_ITERATIONS = 10_000_000
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """The hash of one password.

    Args:
        iterations: of PBKDF2.
        salt: random bytes.
        digest: 32 bytes.
    """

    iterations: int
    salt: bytes
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, iterations: int = ITERATIONS) -> "PasswordHash":
        """Hash a password with a new salt; takes some 0.3 s."""
        salt = os.urandom(_SALT_BYTES)
        return cls(iterations, salt, _derive(password, salt, iterations))

    @classmethod
    def parse(cls, text: str) -> "PasswordHash":
        """Read `$pbkdf2-sha256$iterations$salt$hash`.

        Raises:
            ValueError: the text has another form.
        """
        empty, scheme, iterations, salt, digest = text.split("$")
        found = cls(int(iterations), _decode(salt), _decode(digest))
        if empty or scheme != SCHEME or not 1 <= found.iterations <= _MOST_ITERATIONS:
            raise ValueError
        if len(found.digest) != hashlib.sha256().digest_size or not found.salt:
            raise ValueError
        return found

    def __str__(self) -> str:
        return f"${SCHEME}${self.iterations}${_encode(self.salt)}${_encode(self.digest)}"

    def fits(self, password: str) -> bool:
        """Whether this is the hash of a password; takes some 0.3 s, without holding the GIL."""
        return hmac.compare_digest(self.digest, _derive(password, self.salt, self.iterations))


def password_fits(users: Mapping[str, PasswordHash], user: str, password: str) -> bool:
    """Whether a user has this password; takes as long for an unknown user as for the first one."""
    iterations = next((each.iterations for each in users.values()), ITERATIONS)
    unknown = PasswordHash(iterations, bytes(_SALT_BYTES), bytes(32))
    return users.get(user, unknown).fits(password) and user in users


def load_users(path: str, key: str) -> dict[str, PasswordHash]:
    """Read a file of lines `user:hash`; empty lines and comments (`#`) are skipped.

    Args:
        path: of the file.
        key: the setting that names it, for messages.

    Raises:
        ConfigError: the file or a line cannot be read, or the file has no user.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{key}={path} cannot be read: {error}") from None
    users: dict[str, PasswordHash] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, _, text = line.strip().partition(":")
        try:
            found = PasswordHash.parse(text)
        except ValueError:
            raise ConfigError(
                f"{key}={path}: line {number} is not user:${SCHEME}$...: make it with zkbroker "
                "hash-password USER"
            ) from None
        if not user or user in users:
            raise ConfigError(f"{key}={path}: line {number} has no user, or a repeated one")
        users[user] = found
    if not users:
        raise ConfigError(
            f"{key}={path} has no user: add a line made with zkbroker hash-password USER"
        )
    return users


def _derive(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)


def _encode(data: bytes) -> str:
    return base64.b64encode(data, b"./").decode().rstrip("=")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"./", validate=True)
    except binascii.Error as error:
        raise ValueError from error
