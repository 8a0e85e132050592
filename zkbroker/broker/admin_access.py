"""Access to the admin page: HTTP's basic authentication, with a limit of failed attempts.

    credentials --known from before--> let in
                --too many recent failures from this address--> 429
                --compared with the file, off the event loop, one at a time--> let in, or 401

Invariant: a password is compared by its hash and in constant time. At most `FAILURES` attempts of
one address may fail in `WINDOW_S`; then the address is refused until they are that old. Memory is
bounded: addresses by `ADDRESSES`, accepted credentials by `REMEMBERED`.
"""

import base64
import binascii
import hashlib
import hmac
import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from zkbroker.errors import ConfigError
from zkbroker.runtime import Runtime
from zkbroker.security.password_hashes import PasswordHash, load_users, password_fits

logger = logging.getLogger(__name__)

USERS_FILE = "admin.users.file"
REALM = "zkbroker admin"
FAILURES = 5
WINDOW_S = 60.0
ADDRESSES = 1000
REMEMBERED = 100
_LONGEST = 1024


class AccessDecision(Enum):
    """The decision on a request."""

    GRANTED = "granted"
    DENIED = "denied"
    TOO_MANY = "too many"


class AdminAccess:
    """Decides who may see the page.

    Args:
        path: file with lines `user:hash`; it is read again after a change.
        runtime: compares passwords off the event loop.
        now_s: a clock that never goes back, in seconds.
        key: the setting that names the file, for messages.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(
        self, path: str, runtime: Runtime, now_s: Callable[[], float], key: str = USERS_FILE
    ) -> None:
        self._path = path
        self._key = key
        self._runtime = runtime
        self._now_s = now_s
        self._stamp = self._file_stamp()
        self._users: dict[str, PasswordHash] = load_users(path, key)
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._right: OrderedDict[bytes, None] = OrderedDict()
        # Credentials are remembered as keyed hashes, which only this process can compute.
        self._secret = os.urandom(32)
        self._comparing = runtime.lock()

    def check(self, authorization: str | None, address: str) -> AccessDecision:
        """Decide on a request.

        Args:
            authorization: the value of its header, None if it has none.
            address: of its sender.
        """
        self._read_again()
        if authorization is None:
            return AccessDecision.DENIED
        if self._failed_lately(address) >= FAILURES:
            return AccessDecision.TOO_MANY
        credentials = credentials_of(authorization)
        if credentials is None:
            return self._deny(address, "?")
        user, password = credentials
        mark = hmac.digest(self._secret, f"{user}\0{password}".encode(), hashlib.sha256)
        if mark in self._right:
            self._right.move_to_end(mark)
            return AccessDecision.GRANTED
        with self._comparing:
            # Other requests of this address may have failed while this one waited.
            if self._failed_lately(address) >= FAILURES:
                return AccessDecision.TOO_MANY
            users = self._users
            if not self._runtime.offload(password_fits, users, user, password):
                return self._deny(address, user)
            if users is self._users:
                self._right[mark] = None
                if len(self._right) > REMEMBERED:
                    self._right.popitem(last=False)
        return AccessDecision.GRANTED

    def line(self, user: str) -> PasswordHash | None:
        """Return a user's present entry in the file, None if there is none."""
        self._read_again()
        return self._users.get(user)

    def _deny(self, address: str, user: str) -> AccessDecision:
        times = self._failures.setdefault(address, deque(maxlen=FAILURES))
        times.append(self._now_s())
        self._failures.move_to_end(address)
        if len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        logger.warning("admin page: login refused user=%r address=%s", user[:64], address)
        if len(times) == FAILURES:
            logger.warning("admin page: address refused for=%gs address=%s", WINDOW_S, address)
        return AccessDecision.DENIED

    def _failed_lately(self, address: str) -> int:
        oldest = self._now_s() - WINDOW_S
        return sum(1 for each in self._failures.get(address, ()) if each > oldest)

    def _read_again(self) -> None:
        stamp = self._file_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._users = load_users(self._path, self._key)
        except ConfigError as error:
            # A traceback would add nothing.
            logger.error("users of the admin page kept as they were error=%s", error)  # noqa: TRY400
        else:
            self._right.clear()
            logger.info("users of the admin page read again users=%d", len(self._users))

    def _file_stamp(self) -> tuple[int, int, int]:
        try:
            found = Path(self._path).stat()
        except OSError:
            return (0, 0, 0)
        return found.st_mtime_ns, found.st_size, found.st_ino


def credentials_of(authorization: str) -> tuple[str, str] | None:
    """Return user and password of a header; None if it is not basic authentication."""
    scheme, _, encoded = authorization.strip().partition(" ")
    if scheme.lower() != "basic" or len(encoded) > _LONGEST:
        return None
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    user, colon, password = text.partition(":")
    return (user, password) if colon else None
