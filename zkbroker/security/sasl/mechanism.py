"""The two sides of a SASL mechanism.

Invariant: a mechanism sees only the tokens of one connection. After it has succeeded or failed, it
accepts no more tokens.
"""

from typing import Protocol

from zkbroker.errors import ZkbrokerError

MAX_TOKEN_BYTES = 512 * 1024


class LoginRefused(ZkbrokerError):
    """One side ends an exchange; the message of a broker is sent to the client."""


class ServerMechanism(Protocol):
    """A broker's side of one authentication."""

    @property
    def user(self) -> str | None:
        """The user that the client has authenticated as; None before that."""

    @property
    def waits(self) -> bool:
        """Whether `evaluate` may wait, for a network or a user's own code."""

    def evaluate(self, token: bytes) -> bytes:
        """Process the client's next token and return the answer.

        Raises:
            LoginRefused: the client is refused; the message is for the client.
        """


class ClientMechanism(Protocol):
    """A client's side of one authentication."""

    @property
    def complete(self) -> bool:
        """Whether the exchange is over, and the broker has proved all that the mechanism asks."""

    def first(self) -> bytes:
        """Return the token that opens the exchange."""

    def evaluate(self, token: bytes) -> bytes | None:
        """Process the broker's token and return the next one, None at the end.

        Raises:
            LoginRefused: the broker refuses, or did not prove that it knows the user.
        """


def invalid_credentials(mechanism: str) -> LoginRefused:
    """Return the answer to credentials or tokens that are wrong in any way."""
    return LoginRefused(
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}"
    )
