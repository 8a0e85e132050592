"""The broker's side of a login with any mechanism: the allowed order of requests.

    START --versions--> ASKED
    START, ASKED --handshake v1--> TOKENS     tokens come in SaslAuthenticate
    START, ASKED --handshake v0--> BARE       tokens come as frames of their own
    TOKENS, BARE --token--> the same, or DONE
    any --what is out of order, or refused--> FAILED

Invariant: only DONE has a principal; DONE and FAILED accept nothing more. There is one handshake.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from zkbroker.security.principal import Principal
from zkbroker.security.sasl.mechanism import LoginRefused, ServerMechanism

_MAX_STEPS = 8


class Phase(Enum):
    """The state of a login."""

    START = "nothing was asked"
    ASKED = "the versions were asked"
    TOKENS = "tokens come in requests"
    BARE = "tokens come as frames"
    DONE = "logged in"
    FAILED = "refused"


class OutOfOrder(LoginRefused):
    """A client sent a request out of order."""


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
        """Whether checking the next token may take long."""
        return self._mechanism is not None and self._mechanism.waits

    def versions(self, *, answered: bool) -> None:
        """Accept one request for the served versions.

        Args:
            answered: whether the answer is the table; not if the request's version was unknown.

        Raises:
            OutOfOrder: it was answered already.
        """
        if self.phase is not Phase.START:
            raise self._out_of_order("ApiVersions")
        if answered:
            self.phase = Phase.ASKED

    def handshake(self, mechanism: str, *, bare: bool) -> bool:
        """Accept the choice of a mechanism.

        Args:
            mechanism: its name.
            bare: whether tokens come as bare frames.

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
            LoginRefused: the client is refused; the message is for the client.
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
        """End the login after a request out of order; return the error."""
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
