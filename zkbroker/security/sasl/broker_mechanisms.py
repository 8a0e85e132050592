"""Makes the SASL mechanisms of a listener from its settings.

Invariant: the keys and validators of the mechanisms are loaded before the listener is opened; the
broker does not start with a setting that cannot be used.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from zkbroker.config.import_path import import_function
from zkbroker.config.sasl_listeners import HANDLER, JWKS_URL, ListenerMechanism, ListenerSasl
from zkbroker.errors import ConfigError
from zkbroker.security.sasl import OAUTHBEARER, PLAIN
from zkbroker.security.sasl.mechanism import ServerMechanism
from zkbroker.security.sasl.oauthbearer import OAuthBearerServer, TokenValidator
from zkbroker.security.sasl.plain import CheckPassword, PlainServer, PlainUsers
from zkbroker.security.sasl.scram import HASHES
from zkbroker.security.sasl.scram_server import ScramSecret, ScramServer, ScramUsers
from zkbroker.security.sasl.tokens import ClaimRules, UnsecuredValidator

logger = logging.getLogger(__name__)

Mechanisms = Mapping[str, Callable[[], ServerMechanism]]
"""Name → makes the broker's side of one login; in the order in which clients see them."""

_SCHEMES = ("https:", "http:", "file:")


def broker_mechanisms(sasl: ListenerSasl, users: ScramUsers, secret: ScramSecret) -> Mechanisms:
    """Make the mechanisms of a listener.

    Args:
        sasl: its settings.
        users: the credentials for SCRAM.
        secret: for the salts of nonexistent users.

    Raises:
        ConfigError: a handler cannot be imported, or keys cannot be read.
    """
    made: dict[str, Callable[[], ServerMechanism]] = {}
    for each in sasl.mechanisms:
        if each.name == PLAIN:
            check = _password_check(sasl.listener, each)
            made[each.name] = partial(PlainServer, check, waits=bool(each.options.handler))
        elif each.name == OAUTHBEARER:
            made[each.name] = _oauthbearer(_validator(sasl.listener, each), sasl.listener)
        else:
            made[each.name] = partial(ScramServer, HASHES[each.name], users, secret)
    return made


def _oauthbearer(validator: TokenValidator, listener: str) -> Callable[[], ServerMechanism]:
    def refused(error: Exception) -> None:
        # The class is logged too: an exception of a user's own validator may be a bug in it.
        logger.info(
            "token refused listener=%s reason=%s: %s", listener, type(error).__name__, error
        )

    return partial(OAuthBearerServer, validator, refused)


def _password_check(listener: str, mechanism: ListenerMechanism) -> CheckPassword:
    name = mechanism.options.handler
    if name:
        check: CheckPassword = _handler(listener, PLAIN, name)
        return check
    return PlainUsers(mechanism.users)


def _validator(listener: str, mechanism: ListenerMechanism) -> TokenValidator:
    options = mechanism.options
    name = options.handler
    if name:
        validator: TokenValidator = _handler(listener, OAUTHBEARER, name)
        return validator
    url = options.jwks_url
    if not url:
        logger.warning(
            "listener=%s takes tokens without a signature: any client may log in as any user, "
            "super users included; for anything but tests set %s",
            listener,
            JWKS_URL,
        )
        return UnsecuredValidator(_unsecured_rules(mechanism.line.options))
    if not url.lower().startswith(_SCHEMES):
        raise ConfigError(f"{JWKS_URL}={url} is not allowed: give https://... or file:///...")
    if url.lower().startswith("http:"):
        logger.warning(
            "%s=%s is not encrypted: an attacker on the network could replace the keys",
            JWKS_URL,
            url,
        )
    from zkbroker.security.sasl.jwks import KeySet, SignedValidator

    rules = ClaimRules(
        user_claim=options.user_claim,
        scope_claim=options.scope_claim,
        required_scope=tuple(options.scope.split()),
        issuer=options.issuer,
        audience=options.audience,
        clock_skew_s=options.clock_skew_s,
    )
    return SignedValidator(KeySet(url, options.jwks_refresh_ms / 1000), rules)


def _handler(listener: str, mechanism: str, name: str) -> Any:
    key = f"listener.name.{listener.lower()}.{mechanism.lower()}.{HANDLER}"
    return import_function(key, name)


def _unsecured_rules(options: Mapping[str, str]) -> ClaimRules:
    """Return the rules for the claims of unsecured tokens, from the options of the JAAS line."""
    prefix = "unsecuredValidator"
    skew = options.get(f"{prefix}AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError(
            f"{prefix}AllowableClockSkewMs={skew!r} is not allowed: give milliseconds"
        )
    return ClaimRules(
        user_claim=options.get(f"{prefix}PrincipalClaimName", "sub"),
        scope_claim=options.get(f"{prefix}ScopeClaimName", "scope"),
        required_scope=tuple(options.get(f"{prefix}RequiredScope", "").split()),
        clock_skew_s=int(skew) / 1000,
    )
