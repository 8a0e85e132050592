"""`listener.name.NAME.max.connection.creation.rate`: the rate of connections of one listener."""

from collections.abc import Collection, Mapping

from zkbroker.config.schema import Int32, parse_value
from zkbroker.errors import ConfigError

_PREFIX = "listener.name."
KEY = "max.connection.creation.rate"
_KEY = f".{KEY}"
_KIND = Int32(1)


def listener_of_rate(key: str) -> str | None:
    """Return the listener that a key sets the rate of, in upper case; None for any other key."""
    if key.startswith(_PREFIX) and key.endswith(_KEY):
        return key[len(_PREFIX) : -len(_KEY)].upper()
    return None


def listener_rates(properties: Mapping[str, str], listeners: Collection[str]) -> dict[str, int]:
    """Return the rates of listeners that have one of their own.

    Args:
        properties: of the broker.
        listeners: the names of all listeners, in upper case.

    Raises:
        ConfigError: there is no such listener, or the rate is not allowed.
    """
    found: dict[str, int] = {}
    for key, text in properties.items():
        name = listener_of_rate(key)
        if name is None:
            continue
        if name not in listeners:
            raise ConfigError(
                f"{key}: there is no listener {name}; there are {', '.join(listeners)}"
            )
        found[name] = parse_value(key, text, _KIND)
    return found
