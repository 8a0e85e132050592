"""The broker's side of SCRAM.

    client-first   n,[a=id],n=user,r=nonce[,name=value ...]
    server-first   r=nonce+own,s=base64(salt),i=iterations
    client-final   c=biws,r=nonce+own,p=base64(proof)
    server-final   v=base64(signature)

Invariant: a nonexistent user is asked for a proof like any other, with a salt that is always the
same for its name, and takes the same computation; a wrong proof gets the same answer. A final
message is valid only for the nonce of its own exchange.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from zkbroker.security.sasl.mechanism import LoginRefused, invalid_credentials
from zkbroker.security.sasl.scram import (
    MIN_ITERATIONS,
    NONCE_BITS,
    ScramCredential,
    ScramHash,
    base36,
    nonce,
    unescaped_name,
    xor,
)

_FIRST = re.compile(
    r"(?P<header>n,(?:a=(?P<id>[^,]+))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_FINAL = re.compile(
    r"(?P<bare>c=(?P<header>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]+=[^,]+)*?),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_ANY_HEADER = "n,,"
_MAX_MESSAGE_BYTES = 64 * 1024


class ScramUsers(Protocol):
    """The source of credentials: memory, so that a look-up takes the same time for any user."""

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return the credential of a user for a mechanism, None without one."""

    def usual_iterations(self, mechanism: str) -> int:
        """Return the iteration count that most users have."""


@dataclass(frozen=True, slots=True)
class ScramSecret:
    """The secret from which the salts of nonexistent users are derived; the same on all brokers.

    Args:
        key: not known to clients.
    """

    key: bytes = field(repr=False)


class ScramServer:
    """One authentication.

    Args:
        hashes: of the mechanism.
        users: their credentials.
        secret: for the salts of nonexistent users.
        own_nonce: makes a fresh nonce.
    """

    waits = False

    def __init__(
        self,
        hashes: ScramHash,
        users: ScramUsers,
        secret: ScramSecret,
        own_nonce: Callable[[], str] = nonce,
    ) -> None:
        self._hashes = hashes
        self._users = users
        self._secret = secret
        self._own_nonce = own_nonce
        self._asked: _FirstExchange | None = None
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        """Process the first or the final message.

        Raises:
            LoginRefused: the message is invalid, or the proof is wrong.
        """
        if len(token) > _MAX_MESSAGE_BYTES:
            raise invalid_credentials(self._hashes.mechanism)
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise invalid_credentials(self._hashes.mechanism) from None
        return self._first(text) if self._asked is None else self._final(text, self._asked)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None or "\0" in text:
            raise invalid_credentials(self._hashes.mechanism)
        try:
            user = unescaped_name(match["user"])
            authorization_id = unescaped_name(match["id"] or "")
        except ValueError:
            raise invalid_credentials(self._hashes.mechanism) from None
        if authorization_id not in ("", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        if ",tokenauth=true" in match["extensions"].lower():
            raise LoginRefused(
                "Authentication failed: delegation tokens are not served here; log in with user "
                "and password"
            )
        stand_in = self._stand_in(user)
        stored = self._users.credential(self._hashes.mechanism, user)
        credential = stand_in if stored is None else stored
        both = match["nonce"] + self._own_nonce()
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={both},s={salt},i={credential.iterations}"
        self._asked = _FirstExchange(
            user,
            credential,
            stored is not None,
            match["nonce"],
            both,
            match["header"],
            f"{match['bare']},{answer}",
        )
        return answer.encode()

    def _stand_in(self, user: str) -> ScramCredential:
        """Return the credential of a nonexistent user, whose keys match no password."""
        name = f"{self._hashes.mechanism}\0{user}".encode()
        made = hmac.digest(self._secret.key, name, "sha512")
        salt = base36(int.from_bytes(made, "big") >> (512 - NONCE_BITS)).encode()
        key = made[: self._hashes.size]
        iterations = self._users.usual_iterations(self._hashes.mechanism)
        return ScramCredential(salt, key, key, max(iterations, MIN_ITERATIONS))

    def _final(self, text: str, asked: "_FirstExchange") -> bytes:
        hashes = self._hashes
        match = _FINAL.fullmatch(text)
        if match is None or self.user is not None or asked.done:
            raise invalid_credentials(hashes.mechanism)
        asked.done = True
        try:
            header = base64.b64decode(match["header"], validate=True).decode()
            proof = base64.b64decode(match["proof"], validate=True)
        except (binascii.Error, UnicodeDecodeError):
            raise invalid_credentials(hashes.mechanism) from None
        # librdkafka before 2.2 repeats its own nonce in front, which also belongs to this exchange.
        nonces = (asked.nonce, asked.client_nonce + asked.nonce)
        fits = header in (asked.header, _ANY_HEADER) and match["nonce"] in nonces
        if not fits or len(proof) != hashes.size:
            raise invalid_credentials(hashes.mechanism)
        message = f"{asked.messages},{match['bare']}".encode()
        credential = asked.credential
        client_key = xor(proof, hashes.mac(credential.stored_key, message))
        proved = hmac.compare_digest(hashes.hash(client_key), credential.stored_key)
        if not (proved and asked.exists):
            raise invalid_credentials(hashes.mechanism)
        self.user = asked.user
        signature = base64.b64encode(hashes.mac(credential.server_key, message)).decode()
        return f"v={signature}".encode()


@dataclass(slots=True)
class _FirstExchange:
    """The state after the first message and its answer.

    Args:
        exists: whether the user exists.
        client_nonce: the client's nonce.
        nonce: the client's nonce followed by ours.
        header: the part of the first message before its bare part.
        messages: the bare first message and the answer, joined by a comma.
        done: whether the final message has arrived.
    """

    user: str
    credential: ScramCredential
    exists: bool
    client_nonce: str
    nonce: str
    header: str
    messages: str
    done: bool = False
