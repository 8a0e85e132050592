"""The broker's side of a login, whatever the mechanism: what a client may send, and when.

    START --versions--> ASKED
    START, ASKED --handshake v1--> TOKENS     tokens come in SaslAuthenticate
    START, ASKED --handshake v0--> BARE       tokens come as frames of their own
    TOKENS, BARE --token--> the same, or DONE
    any --what is out of order, or refused--> FAILED

Invariant: the principal is there in DONE and nowhere else; DONE and FAILED take nothing more. There
is one handshake.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from zkbroker.security.principal import Principal
from zkbroker.security.sasl.mechanism import LoginRefused, ServerMechanism

_MAX_STEPS = 8


class Phase(Enum):
    """How far a login is."""

    START = "nothing was asked"
    ASKED = "the versions were asked"
    TOKENS = "tokens come in requests"
    BARE = "tokens come as frames"
    DONE = "logged in"
    FAILED = "refused"


class OutOfOrder(LoginRefused):
    """A client sent what may not come now."""


class ServerExchange:
    """One login.

    Args:
        mechanisms: name → makes the broker's side of it; in the order in which clients see them.
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
        """Take a question for the versions that are served; one is answered.

        Args:
            answered: whether its answer is the table; not if its version was unknown.

        Raises:
            OutOfOrder: it was answered already.
        """
        if self.phase is not Phase.START:
            raise self._out_of_order("ApiVersions")
        if answered:
            self.phase = Phase.ASKED

    def handshake(self, mechanism: str, *, bare: bool) -> bool:
        """Take the choice of a mechanism.

        Args:
            mechanism: its name.
            bare: whether tokens come as frames of their own.

        Returns:
            whether it is enabled; the login has failed if not.

        Raises:
            OutOfOrder: there was one before.
        """
        if self.phase not in (Phase.START, Phase.ASKED):
            raise self._out_of_order("SaslHandshake")
        make = self._mechanisms.get(mechanism)
        if make is None:
            self.phase = Phase.FAILED
            return False
        self.mechanism = mechanism
        self._mechanism = make()
        self.phase = Phase.BARE if bare else Phase.TOKENS
        return True

    def token(self, token: bytes) -> bytes:
        """Take a token and return the answer to it.

        Raises:
            LoginRefused: the client is refused; the message is for it.
        """
        mechanism = self._mechanism
        if mechanism is None or self.phase not in (Phase.TOKENS, Phase.BARE):
            raise self._out_of_order("a token")
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise self._out_of_order("one token more")
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
        """End the login, for something came that has no place in it; return the error."""
        return self._out_of_order(what)

    def _out_of_order(self, what: str) -> OutOfOrder:
        before = self.phase
        self.phase = Phase.FAILED
        why = before.value
        if before in (Phase.START, Phase.ASKED):
            why = (
                "no login came before it: set security.protocol=SASL_SSL (or SASL_PLAINTEXT) "
                "in the client"
            )
        return OutOfOrder(f"{what} may not come here: {why}")
