"""Client settings on which secrecy rests, and that clients of Kafka 0.7 cannot obey.

Invariant: such a setting is obeyed or refused; it is never ignored, so that plain text is
not taken for encryption.
"""

from collections.abc import Mapping

from zkbroker.errors import ConfigError

_PLAINTEXT = "PLAINTEXT"


def refuse_unsupported(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that say nothing new.

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
