"""Settings of logins: for all listeners, one listener or one of its mechanisms.

Invariant: each may be set for all listeners, as `listener.name.<listener>.<key>` for one, or as
`listener.name.<listener>.<mechanism>.<key>` for one of its mechanisms; the most specific one wins
(`zkbroker.config.sasl_listeners`). A JAAS line cannot be set for all listeners.
"""

from dataclasses import dataclass
from typing import Final

from zkbroker.config import schema
from zkbroker.config.schema import Int, Int32, Str, StrList, option

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""The mechanisms that brokers and clients speak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginOptions:
    """Logins on one listener."""

    # fmt: off
    enabled: tuple[str, ...] = option("sasl.enabled.mechanisms", StrList(), ("GSSAPI",),
        f"Mechanisms by which clients log in on SASL_ listeners: some of {', '.join(MECHANISMS)}. "
        "GSSAPI (Kerberos) is not supported.")
    inter_broker: str = option("sasl.mechanism.inter.broker.protocol", Str(), "GSSAPI",
        "Mechanism by which brokers log in to each other, where their listener is a SASL_ one.")
    jaas_file: str = option("java.security.auth.login.config", Str(), "",
        "JAAS file with the sections KafkaServer and <listener>.KafkaServer; by default the one of "
        "-Djava.security.auth.login.config=... in the variable KAFKA_OPTS.")
    # fmt: on

    def __post_init__(self) -> None:
        schema.validate(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismOptions:
    """How one mechanism of one listener checks logins."""

    # fmt: off
    handler: str = option("sasl.server.callback.handler.class", Str(), "",
        "package.module:function that checks PLAIN's user and password, or returns the user of an "
        "OAUTHBEARER token. Set it for one mechanism of one listener.")
    jwks_url: str = option("sasl.oauthbearer.jwks.endpoint.url", Str(), "",
        "Address of the keys that tokens are signed with: https://... or file:///... (JWKS).")
    jwks_refresh_ms: int = option("sasl.oauthbearer.jwks.endpoint.refresh.ms", Int(1), 3_600_000,
        "Age in ms at which those keys are read again.")
    issuer: str = option("sasl.oauthbearer.expected.issuer", Str(), "",
        "Value that a token's claim iss must have; empty allows any.")
    audience: tuple[str, ...] = option("sasl.oauthbearer.expected.audience", StrList(), (),
        "Values of which a token's claim aud must name one; empty allows any.")
    scope: str = option("sasl.oauthbearer.expected.scope", Str(), "",
        "Scopes that a token must grant, separated by blanks; a setting of zkbroker's own.")
    user_claim: str = option("sasl.oauthbearer.sub.claim.name", Str(empty=False), "sub",
        "Claim of a token that names the user.")
    scope_claim: str = option("sasl.oauthbearer.scope.claim.name", Str(empty=False), "scope",
        "Claim of a token that names its scopes.")
    clock_skew_s: int = option("sasl.oauthbearer.clock.skew.seconds", Int32(0), 30,
        "Largest difference of the issuer's clock, in seconds.")
    # fmt: on

    def __post_init__(self) -> None:
        schema.validate(self)


KEYS = schema.keys(LoginOptions, MechanismOptions)
"""Every setting of these groups."""
