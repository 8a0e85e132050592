"""Verifies signed tokens with the keys that their issuer publishes (RFC 7517).

Invariant: a key verifies only algorithms of its own kind, and shared secrets are not supported, so
that a published key is never used as a secret. Keys are read again after a while, and when a token
names an unknown key, but not more often than every few seconds. If that fails, the known keys stay
valid.
"""

import json
import logging
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkbroker.errors import ConfigError
from zkbroker.security.sasl.oauthbearer import TokenRefused
from zkbroker.security.sasl.pages import read_page
from zkbroker.security.sasl.tokens import MAX_TOKEN_CHARS, ClaimRules

logger = logging.getLogger(__name__)

_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_MAX_BYTES = 1024 * 1024
_FETCH_TIMEOUT_S = 10.0
_LEAST_PAUSE_S = 10.0


def read_url(url: str) -> bytes:
    """Read a file or a page.

    Args:
        url: `https:`, `http:` or `file:`.

    Raises:
        OSError: it cannot be read.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        data = Path(urllib.request.url2pathname(parts.path)).read_bytes()
    else:
        data = read_page(url, _FETCH_TIMEOUT_S, _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise OSError(f"longer than {_MAX_BYTES} bytes")
    return bytes(data)


class KeySet:
    """The keys of one issuer, kept up to date; safe to share between threads.

    Args:
        url: of the published keys; `https:`, `http:` or `file:`.
        refresh_s: how long keys are used before they are read again, in seconds.
        read: reads the page.
        clock_s: monotonic seconds.

    Raises:
        ConfigError: the first reading failed.
    """

    def __init__(
        self,
        url: str,
        refresh_s: float,
        read: Callable[[str], bytes] = read_url,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._refresh_s = refresh_s
        self._read = read
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._tried_at = clock_s()
        try:
            self._keys = self._load()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url={url}: the keys cannot be read: {error}"
            ) from error

    def find(self, key_id: object) -> "PublishedKey | None":
        """Return the key of an id, or the only key if a token names none."""
        now = self._clock_s()
        if now - self._tried_at >= self._refresh_s:
            self._load_again()
        found = self._known(key_id)
        if found is None and now - self._tried_at >= _LEAST_PAUSE_S:
            self._load_again()
            found = self._known(key_id)
        return found

    def _known(self, key_id: object) -> "PublishedKey | None":
        keys = self._keys
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.id == key_id), None)

    def _load_again(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread is reading them; the known keys stay valid
        try:
            self._tried_at = self._clock_s()
            self._keys = self._load()
        except (OSError, ValueError) as error:
            logger.warning("token keys not read url=%s error=%s", self._url, error)
        finally:
            self._lock.release()

    def _load(self) -> list["PublishedKey"]:
        try:
            import jwt
        except ImportError as error:
            raise ConfigError(
                "sasl.oauthbearer.jwks.endpoint.url needs the package pyjwt: pip install "
                "'zkbroker[security]'"
            ) from error
        try:
            published = json.loads(self._read(self._url))["keys"]
            keys = [key for each in published if (key := _usable(each, jwt)) is not None]
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"the page holds no set of keys: {error!r}") from error
        if not keys:
            raise ValueError("none of the keys verifies signatures (RSA, EC or OKP)")
        return keys


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """A public key.

    Args:
        id: names the key in tokens.
        key: in the form of the library.
        algorithms: those that it verifies.
    """

    id: object
    key: Any
    algorithms: tuple[str, ...]


def _usable(published: Mapping[str, Any], jwt: Any) -> PublishedKey | None:
    """Return a key if it verifies signatures and can be read, else None."""
    kind, only = published.get("kty"), published.get("alg")
    algorithms = tuple(each for each in _ALGORITHMS.get(str(kind), ()) if only in (None, each))
    if not algorithms or published.get("use") not in (None, "sig"):
        return None
    try:
        return PublishedKey(published.get("kid"), jwt.PyJWK(published).key, algorithms)
    except jwt.PyJWTError as error:
        logger.warning("token key not usable kid=%s error=%s", published.get("kid"), error)
        return None


@dataclass(frozen=True, slots=True)
class SignedValidator:
    """Accepts tokens that a key of the issuer has signed.

    Args:
        keys: of the issuer.
        rules: for the claims.
        now_s: the time of day, in seconds since 1970.
    """

    keys: KeySet
    rules: ClaimRules
    now_s: Callable[[], float] = time.time

    def __call__(self, token: str) -> str:
        """Return the user that a token names.

        Raises:
            TokenRefused: no key of the issuer has signed the token, or a claim breaks a rule.
        """
        import jwt

        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused("it is too long")
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            key = self.keys.find(key_id)
            if key is None:
                raise TokenRefused(f"it is signed by the key {key_id!r}, which is not published")
            signed = jwt.PyJWS().decode(token, key.key, algorithms=list(key.algorithms))
            claims = json.loads(signed)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(f"its signature is not valid: {error}") from None
        if not isinstance(claims, dict):
            raise TokenRefused("its claims are not a JSON object")
        return self.rules.user(claims, self.now_s())
