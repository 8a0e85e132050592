"""The client's side of SCRAM; the messages stand in `scram_server`.

Invariant: the broker, too, must prove that it knows the user: without its signature the login has
failed. What a broker asks for is bounded: a weak or an endless count of iterations is refused.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable

from zkbroker.security.sasl.mechanism import LoginRefused
from zkbroker.security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramHash,
    escaped_name,
    nonce,
    xor,
)

_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})"
    r"(?:,[A-Za-z]+=[^,]+)*"
)
_HEADER = "n,,"


class ScramClient:
    """One authentication.

    Args:
        hashes: of the mechanism.
        user: the name.
        password: never sent.
        own_nonce: makes a fresh one.
    """

    def __init__(
        self,
        hashes: ScramHash,
        user: str,
        password: str,
        own_nonce: Callable[[], str] = nonce,
    ) -> None:
        self._hashes = hashes
        self._password = password
        self._nonce = own_nonce()
        self._bare = f"n={escaped_name(user)},r={self._nonce}"
        self._signature: bytes | None = None
        self.complete = False

    def first(self) -> bytes:
        """Return the first message."""
        return f"{_HEADER}{self._bare}".encode()

    def evaluate(self, token: bytes) -> bytes | None:
        """Answer the broker's first message with the proof; check its final one.

        Raises:
            LoginRefused: the broker does not prove itself, or asks what is refused.
        """
        text = token.decode("utf-8", "replace")
        if self._signature is None:
            return self._final(text)
        if text.startswith("e="):
            raise LoginRefused(f"the broker refuses the login: {text[2:100]}")
        given = text.partition("v=")[2].partition(",")[0]
        try:
            signature = base64.b64decode(given, validate=True)
        except binascii.Error:
            signature = b""
        if not hmac.compare_digest(signature, self._signature):
            raise LoginRefused(
                "the broker did not prove that it knows the user: is it the broker that was meant?"
            )
        self.complete = True
        return None

    def _final(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise LoginRefused(f"the broker's first message of {self._hashes.mechanism} is none")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise LoginRefused(
                f"the broker asks for {iterations} iterations, allowed are {MIN_ITERATIONS} to "
                f"{MAX_ITERATIONS}"
            )
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise LoginRefused("the broker's nonce does not begin with that of this client")
        hashes = self._hashes
        try:
            salt = base64.b64decode(match["salt"], validate=True)
        except binascii.Error:
            raise LoginRefused("the broker's salt is not base64") from None
        salted = hashes.salted_password(self._password, salt, iterations)
        client_key = hashes.mac(salted, b"Client Key")
        bare = f"c={base64.b64encode(_HEADER.encode()).decode()},r={match['nonce']}"
        message = f"{self._bare},{text},{bare}".encode()
        proof = xor(client_key, hashes.mac(hashes.hash(client_key), message))
        self._signature = hashes.mac(hashes.mac(salted, b"Server Key"), message)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()
