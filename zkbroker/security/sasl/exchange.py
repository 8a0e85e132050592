"""The broker's side of a login with any mechanism: the order of a client's requests.

    START --versions--> ASKED
    START, ASKED --handshake v1--> TOKENS     tokens come in SaslAuthenticate
    START, ASKED --handshake v0--> BARE       tokens come as bare frames
    TOKENS, BARE --token--> the same, or DONE
    any --out of order, or refused--> FAILED

Invariant: the principal is known only in DONE; DONE and FAILED accept nothing more. There is only
one handshake.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from zkbroker.security.principal import Principal
from zkbroker.security.sasl.mechanism import LoginRefused, ServerMechanism

_MAX_STEPS = 8


class Phase(Enum):
    """The phase of a login."""

    START = "the login has not begun"
    ASKED = "the versions were requested"
    TOKENS = "a token in SaslAuthenticate is expected"
    BARE = "a token as a bare frame is expected"
    DONE = "the login is complete"
    FAILED = "the login was refused"


class OutOfOrder(LoginRefused):
    """A client sent a request that is not allowed in this phase."""


class ServerExchange:
    """One login.

    Args:
        mechanisms: name → maker of the broker's side; in the order in which clients see them.
    """

    def __init__(self, mechanisms: Mapping[str, Callable[[], ServerMechanism]]) -> None:
        self._mechanisms = mechanisms
        self._mechanism: ServerMechanism | None = None
        self._steps = 0
        self.mechanism = ""
        """Name of the mechanism that the client chose."""
        self.phase = Phase.START
        self.principal: Principal | None = None

    @property
    def enabled(self) -> list[str]:
        """The mechanisms that a client may choose."""
        return list(self._mechanisms)

    @property
    def waits(self) -> bool:
        """Whether the next token may take long."""
        return self._mechanism is not None and self._mechanism.waits

    def versions(self, *, answered: bool) -> None:
        """Process an ApiVersions request; only one is answered with the table.

        Args:
            answered: whether the answer is the table; it is not if the version was unknown.

        Raises:
            OutOfOrder: one was answered already, or the handshake is over.
        """
        if self.phase is not Phase.START:
            raise self.refuse("ApiVersions")
        if answered:
            self.phase = Phase.ASKED

    def handshake(self, mechanism: str, *, bare: bool) -> bool:
        """Process the client's choice of a mechanism.

        Args:
            mechanism: its name.
            bare: whether tokens come as bare frames.

        Returns:
            whether the mechanism is enabled; if not, the login has failed.

        Raises:
            OutOfOrder: there was a handshake before.
        """
        if self.phase not in (Phase.START, Phase.ASKED):
            raise self.refuse("SaslHandshake")
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.phase = Phase.FAILED
            return False
        self.mechanism = mechanism
        self._mechanism = make()
        self.phase = Phase.BARE if bare else Phase.TOKENS
        return True

    def token(self, token: bytes) -> bytes:
        """Process a token and return the answer.

        Raises:
            LoginRefused: the login is refused; the message is for the client.
        """
        mechanism = self._mechanism
        if mechanism is None or self.phase not in (Phase.TOKENS, Phase.BARE):
            raise self.refuse("a token")
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise self.refuse("another token")
        try:
            answer = mechanism.evaluate(token)
        except BaseException:
            self.phase = Phase.FAILED
            raise
        if mechanism.user is not None:
            self.principal = Principal("User", mechanism.user)
            self.phase = Phase.DONE
        return answer

    def refuse(self, what: str) -> OutOfOrder:
        """End the login because of an unexpected request; return the error."""
        before = self.phase
        self.phase = Phase.FAILED
        why = before.value
        if before in (Phase.START, Phase.ASKED):
            why = (
                "a login must come before it: set security.protocol=SASL_SSL (or SASL_PLAINTEXT) "
                "in the client"
            )
        return OutOfOrder(f"{what} is not allowed now: {why}")
