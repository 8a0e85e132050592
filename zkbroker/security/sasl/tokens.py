"""Tokens (RFC 7519) and the rules for their claims.

    unsecured   base64url({"alg":"none"}) . base64url(claims) .              no signature
    signed      base64url({"alg":"RS256","kid":"k"}) . base64url(claims) . base64url(signature)

Invariant: claims are read only after the signature was verified, or if unsecured tokens are
allowed; an unsecured token proves nothing and is for tests.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zkbroker.security.sasl.oauthbearer import TokenRefused

MAX_TOKEN_CHARS = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """The rules for claims, and the claim with the user.

    Args:
        user_claim: the claim that names the user.
        scope_claim: the claim with the granted scopes: a list, or words in one string.
        required_scope: the scopes that the token must grant.
        issuer: the required value of `iss`; empty for any.
        audience: `aud` must name one of these; empty for any.
        clock_skew_s: the tolerated difference of clocks, in seconds.
    """

    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    issuer: str = ""
    audience: tuple[str, ...] = ()
    clock_skew_s: float = 0.0

    def user(self, claims: Mapping[str, Any], now_s: float) -> str:
        """Return the user that claims name.

        Args:
            claims: of a token.
            now_s: the time of day, in seconds since 1970.

        Raises:
            TokenRefused: a claim breaks a rule.
        """
        user = claims.get(self.user_claim)
        if not isinstance(user, str) or not user.strip():
            raise TokenRefused(f"the claim {self.user_claim} names no user")
        expires = _moment(claims, "exp")
        if expires is None:
            raise TokenRefused("the claim exp is missing")
        if now_s >= expires + self.clock_skew_s:
            raise TokenRefused(f"it expired {now_s - expires:.0f} s ago")
        for name in ("iat", "nbf"):
            begins = _moment(claims, name)
            if begins is not None and begins > now_s + self.clock_skew_s:
                raise TokenRefused(
                    f"by its claim {name} it becomes valid in {begins - now_s:.0f} s"
                )
        if self.issuer and claims.get("iss") != self.issuer:
            raise TokenRefused(f"its issuer is not {self.issuer}")
        if self.audience and not set(_texts(claims, "aud", split=False)) & set(self.audience):
            raise TokenRefused(f"its audience is none of {', '.join(self.audience)}")
        granted = _texts(claims, self.scope_claim, split=True)
        missing = [scope for scope in self.required_scope if scope not in granted]
        if missing:
            raise TokenRefused(
                f"it does not grant {' '.join(missing)}",
                "insufficient_scope",
                " ".join(self.required_scope),
            )
        return user


@dataclass(frozen=True, slots=True)
class UnsecuredValidator:
    """Accepts tokens without a signature, as genuine brokers do by default: for tests only.

    Args:
        rules: for the claims.
        now_s: the time of day, in seconds since 1970.
    """

    rules: ClaimRules
    now_s: Callable[[], float] = time.time

    def __call__(self, token: str) -> str:
        """Return the user that a token names.

        Raises:
            TokenRefused: the token is signed or malformed, or a claim breaks a rule.
        """
        if len(token) > MAX_TOKEN_CHARS:
            raise TokenRefused("it is too long")
        parts = token.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenRefused("it is not of the form header.claims. without a signature")
        if _json(parts[0]).get("alg") != "none":
            raise TokenRefused('its header does not say "alg":"none"')
        return self.rules.user(_json(parts[1]), self.now_s())


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """Make a token without a signature."""
    return f"{_base64url({'alg': 'none'})}.{_base64url(claims)}."


def _base64url(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _json(part: str) -> dict[str, Any]:
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        value = json.loads(text)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused("a part of it is not base64 of JSON") from None
    if not isinstance(value, dict):
        raise TokenRefused("a part of it is not a JSON object")
    return value


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise TokenRefused(f"its claim {name} is not a time")
    return min(max(float(value), -1e15), 1e15) if abs(value) < 1e300 else 1e15


def _texts(claims: Mapping[str, Any], name: str, *, split: bool) -> list[str]:
    value = claims.get(name)
    if isinstance(value, str):
        return value.split() if split else [value]
    if isinstance(value, list):
        return [each for each in value if isinstance(each, str)]
    return []
