"""The two sides of a SASL mechanism.

Invariant: a mechanism sees the tokens of one connection and nothing else; after its end, good or
bad, it takes no token any more.
"""

from typing import Protocol

from zkbroker.errors import ZkbrokerError

MAX_TOKEN_BYTES = 512 * 1024


class LoginRefused(ZkbrokerError):
    """One side ends an exchange; the broker's message is for the client to read."""


class ServerMechanism(Protocol):
    """A broker's side of one authentication."""

    @property
    def user(self) -> str | None:
        """The name that the client proved; None until it has."""

    @property
    def waits(self) -> bool:
        """Whether `evaluate` may wait, for a network or a user's own code."""

    def evaluate(self, token: bytes) -> bytes:
        """Take the client's next token and return the answer to it.

        Raises:
            LoginRefused: the client is refused; the message is for the client.
        """


class ClientMechanism(Protocol):
    """A client's side of one authentication."""

    @property
    def complete(self) -> bool:
        """Whether the mechanism has proved all it can, and checked all that came."""

    def first(self) -> bytes:
        """Return the token that opens the exchange."""

    def evaluate(self, token: bytes) -> bytes | None:
        """Take the broker's token and return the next one, None when there is none.

        Raises:
            LoginRefused: the broker refuses, or did not prove that it knows the user.
        """


def invalid_credentials(mechanism: str) -> LoginRefused:
    """The one answer to credentials, or tokens, that are wrong in any way."""
    return LoginRefused(
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )
