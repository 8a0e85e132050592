"""Client settings of genuine Kafka that change what is promised, and are not served.

Invariant: a setting on which safety or secrecy rests is obeyed or refused; it is never passed over,
so that nobody takes plain text for encryption.
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
            f"security.protocol={protocol} is not supported: connections are not encrypted and "
            "nobody logs in. Leave it out where that is allowed, or connect by a tunnel"
        )
    return given
