"""Clusters whose clients, and whose brokers among themselves, log in."""

from collections.abc import Mapping

from zkbroker.config.sasl_listeners import MODULES
from zkbroker.security.sasl.tokens import unsecured_token

LISTENER = "CLIENT"
BROKERS = "INTERNAL"
SECURE = "SECURE"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
USER, PASSWORD = "alice", "alice, her=secret é"
_FAR = 4_102_444_800  # the year 2100, in seconds

TOKEN = unsecured_token({"sub": USER, "iat": 1_500_000_000, "exp": _FAR})


def line(mechanism: str, options: str = "") -> str:
    """A JAAS line."""
    return f"{MODULES[mechanism]} required {options};"


def broker_properties(inter_broker: str = "PLAIN") -> dict[str, str]:
    """Settings of a broker with a plain listener, one for clients and one for brokers.

    Args:
        inter_broker: mechanism by which brokers log in.
    """
    own = 'username="broker" password="of brokers"'
    properties = {
        "listeners": (f"PLAINTEXT://127.0.0.1:0,{LISTENER}://127.0.0.1:0,{BROKERS}://127.0.0.1:0"),
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT,{BROKERS}:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": BROKERS,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": inter_broker,
        "listener.name.internal.sasl.enabled.mechanisms": inter_broker,
        "listener.name.internal.plain.sasl.jaas.config": line(
            "PLAIN", f'{own} user_broker="of brokers"'
        ),
        "listener.name.internal.scram-sha-512.sasl.jaas.config": line("SCRAM-SHA-512", own),
    }
    prefix = f"listener.name.{LISTENER.lower()}"
    properties |= {
        f"{prefix}.plain.sasl.jaas.config": line("PLAIN", f'user_{USER}="{PASSWORD}"'),
        f"{prefix}.oauthbearer.sasl.jaas.config": line(
            "OAUTHBEARER", 'unsecuredValidatorPrincipalClaimName="sub"'
        ),
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        properties[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = line(mechanism)
    return properties


def secured_properties(keystore: str, authority: str) -> dict[str, str]:
    """Settings of a broker with a listener for clients over TLS, too; brokers use SASL_SSL.

    Args:
        keystore: PEM file with the broker's key and certificate.
        authority: PEM file with the authority that signed it.
    """
    properties = broker_properties()
    properties["listeners"] += f",{SECURE}://127.0.0.1:0"
    properties["listener.security.protocol.map"] = (
        f"PLAINTEXT:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT,{SECURE}:SASL_SSL,{BROKERS}:SASL_SSL"
    )
    old = f"listener.name.{LISTENER.lower()}."
    for key in [key for key in properties if key.startswith(old)]:
        properties[key.replace(old, f"listener.name.{SECURE.lower()}.")] = properties[key]
    return properties | {
        "ssl.keystore.location": keystore,
        "ssl.truststore.location": authority,
    }


def client_properties(
    mechanism: str, user: str = USER, password: str = PASSWORD
) -> Mapping[str, str]:
    """Settings of a client that logs in."""
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        option = f'unsecuredLoginStringClaim_sub="{user}"'
        return properties | {"sasl.jaas.config": line(mechanism, option)}
    return properties | {"sasl.username": user, "sasl.password": password}
