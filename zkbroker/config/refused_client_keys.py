"""Client settings for security that clients of Kafka 0.7 cannot honour.

Invariant: such a setting is honoured or refused, never ignored: a plain connection never passes
for an encrypted one.
"""

from collections.abc import Mapping

from zkbroker.errors import ConfigError

_PLAINTEXT = "PLAINTEXT"


def refuse_unsupported(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without security settings that change nothing.

    Raises:
        ConfigError: one asks for what these clients do not do.
    """
    given = dict(properties)
    protocol = given.pop("security.protocol", _PLAINTEXT).strip().upper()
    if protocol not in ("", _PLAINTEXT):
        raise ConfigError(
            f"security.protocol={protocol} is not supported with Kafka 0.7, which knows neither "
            "TLS nor logins. Leave it out where that is allowed, or connect by a tunnel"
        )
    return given
