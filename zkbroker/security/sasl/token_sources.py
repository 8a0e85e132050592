"""The sources of tokens for a client's OAUTHBEARER logins.

    a function of the program        a file, read for each login (so that it may be renewed)
    a page that issues them for a client's credentials (RFC 6749, section 4.4), cached until expiry
    claims in the JAAS line, unsigned: for tests

Invariant: a cached token is not used beyond its lifetime; no message contains a token.
"""

import base64
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkbroker.config.import_path import import_function
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.errors import AuthenticationFailed, ConfigError
from zkbroker.security.sasl.pages import read_page
from zkbroker.security.sasl.tokens import unsecured_token

_TIMEOUT_S = 10.0
_MAX_BYTES = 512 * 1024
_MAX_KEPT = 64
_RENEWED_BEFORE_S = 30.0
_LIFETIME_S = 3600
_KINDS: Mapping[str, Callable[[str], Any]] = {
    "String": str,
    "Number": float,
    "List": lambda text: text[1:].split(text[0]) if text else [],
}
"""A list begins with the character that separates its items, as in genuine clients."""


def find_token(login: SaslLogin) -> str:
    """Return a token for a login; may wait for the network.

    Raises:
        AuthenticationFailed: no token could be obtained.
        ConfigError: the settings cannot be used.
    """
    if login.token is not None:
        return _called(login.token, "the token function of the program")
    if login.token_handler:
        key = "sasl.login.callback.handler.class"
        return _called(import_function(key, login.token_handler), key)
    if login.token_url:
        return _of_url(login)
    assert login.line is not None
    return unsecured_token(unsecured_claims(login.line.options, time.time()))


def unsecured_claims(options: Mapping[str, str], now_s: float) -> dict[str, Any]:
    """Return the claims that a JAAS line gives an unsigned token.

    Args:
        options: `unsecuredLoginStringClaim_<name>` and the like, as in genuine clients.
        now_s: the time of day, in seconds since 1970.

    Raises:
        ConfigError: a claim or the lifetime is invalid, or no claim names the user.
    """
    claims: dict[str, Any] = {}
    for option, value in options.items():
        for kind, parse in _KINDS.items():
            prefix = f"unsecuredLogin{kind}Claim_"
            if option.startswith(prefix):
                try:
                    claims[option.removeprefix(prefix)] = parse(value)
                except ValueError:
                    raise ConfigError(f"{option}={value!r} is not allowed: give a number") from None
    lifetime = options.get("unsecuredLoginLifetimeSeconds", str(_LIFETIME_S))
    if not lifetime.isdecimal():
        raise ConfigError(
            f"unsecuredLoginLifetimeSeconds={lifetime!r} is not allowed: give seconds"
        )
    name = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not isinstance(claims.get(name), str):
        raise ConfigError(f"the token would name no user: add unsecuredLoginStringClaim_{name}")
    return {"iat": now_s, "exp": now_s + int(lifetime)} | claims


@dataclass(frozen=True, slots=True)
class _Kept:
    token: str
    until_s: float  # monotonic


_kept: dict[tuple[str, str, str, str], _Kept] = {}
_lock = threading.Lock()


def _of_url(login: SaslLogin) -> str:
    url = login.token_url
    if url.lower().startswith("file:"):
        path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
        try:
            return Path(path).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"cannot read the token from {path}: {error}") from error
    key = (url, *login.client)
    with _lock:
        kept = _kept.get(key)
    if kept is not None and time.monotonic() < kept.until_s:
        return kept.token
    fresh = _issued(*key)
    with _lock:
        _kept.pop(key, None)
        while len(_kept) >= _MAX_KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = fresh
    return fresh.token


def _issued(url: str, client_id: str, secret: str, scope: str) -> _Kept:
    fields = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    credentials = ":".join(urllib.parse.quote(text, safe="") for text in (client_id, secret))
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked where it is set
        url,
        urllib.parse.urlencode(fields).encode(),
        {
            "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    try:
        answer = json.loads(read_page(request, _TIMEOUT_S, _MAX_BYTES))
        token = answer["access_token"]
        lifetime = answer.get("expires_in", 0)
    except OSError as error:
        raise AuthenticationFailed(
            f"no token from {url} for the client {client_id}: {error}"
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError):
        raise AuthenticationFailed(
            f"no token from {url}: its answer is not JSON with an access_token"
        ) from None
    if not isinstance(token, str):
        raise AuthenticationFailed(f"no token from {url}: its access_token is not a string")
    try:
        lifetime_s = float(lifetime)
    except (ValueError, TypeError):
        raise AuthenticationFailed(
            f"no token from {url}: its expires_in is not a number of seconds"
        ) from None
    return _Kept(token, time.monotonic() + lifetime_s - _RENEWED_BEFORE_S)


def _called(function: Callable[[], Any], name: str) -> str:
    try:
        token = function()
    except Exception as error:
        # The user's own code, which may raise anything.
        raise AuthenticationFailed(f"no token from {name}: {error!r}") from error
    if not isinstance(token, str) or not token:
        raise AuthenticationFailed(f"no token from {name}: it returned no string")
    return token
