r"""PLAIN (RFC 4616): user and password as they are, so for encrypted listeners.

    client   [authorization id] NUL user NUL password      UTF-8
    server   (empty token)

Invariant: a password is compared in constant time, of a user that exists or not.
"""

import hmac
from collections.abc import Callable, Mapping

from zkbroker.security.sasl import PLAIN
from zkbroker.security.sasl.mechanism import LoginRefused, invalid_credentials

CheckPassword = Callable[[str, str], bool]
"""Whether a user has a password."""


class PlainUsers:
    """Users with their passwords, as a line of JAAS lists them.

    Args:
        passwords: user → password.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = {user: password.encode() for user, password in passwords.items()}

    def __call__(self, user: str, password: str) -> bool:
        """Whether a user has a password."""
        expected = self._passwords.get(user)
        given = password.encode()
        same = hmac.compare_digest(given if expected is None else expected, given)
        return same and expected is not None


class PlainServer:
    """The broker's side.

    Args:
        check: whether a user has a password.
        waits: whether that may wait, as a function of the user's own.
    """

    def __init__(self, check: CheckPassword, *, waits: bool = False) -> None:
        self._check = check
        self.waits = waits
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Check user and password.

        Raises:
            LoginRefused: they are wrong, or the token is none.
            TypeError: the check does not say whether they are.
        """
        parts = token.split(b"\0")
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except ValueError:
            raise invalid_credentials(PLAIN) from None
        if not user:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        fits = self._check(user, password)
        if not isinstance(fits, bool):
            # A function of the user's own, perhaps a coroutine: that is true whatever it says.
            raise TypeError(f"the check of a password returned {type(fits)}, not True or False")
        if not fits:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.user = user
        return b""


class PlainClient:
    """The client's side.

    Args:
        user: without NUL.
        password: without NUL.
    """

    complete = True

    def __init__(self, user: str, password: str) -> None:
        self._user, self._password = user, password

    def first(self) -> bytes:
        """Return user and password."""
        return f"\0{self._user}\0{self._password}".encode()

    def evaluate(self, token: bytes) -> bytes | None:
        """Take the empty answer."""
        return None
