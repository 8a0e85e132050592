"""The generation of Kafka that a client's properties name: `kafka.generation`.

The newer generation is 0.8 and everything after it. Any other one is a plug-in of the clients: an
object that makes their parts. `PLUGINS` has a line for each.

Invariant: an unknown generation is refused by name; without the key it is the newer one.
"""

from collections.abc import Mapping
from typing import Any, Final

from zkbroker.config.import_path import import_object
from zkbroker.errors import ConfigError

PLUGINS: Final = {"0.7": "zkbroker.legacy07.generation:GENERATION"}
"""Generation → import path of its plug-in."""

GENERATION = "kafka.generation"
_SPELLINGS = (GENERATION, "protocol.generation")
_NEWER = ("", "0.8", "auto")


def generation_name(properties: Mapping[str, str]) -> str:
    """Return the generation that properties name; empty for the newer one.

    Raises:
        ConfigError: the generation is not known.
    """
    return parse_generation(next((properties[key] for key in _SPELLINGS if key in properties), ""))


def parse_generation(text: str) -> str:
    """Return the generation that a text names; empty for the newer one.

    Raises:
        ConfigError: it names none.
    """
    plain = text.strip().lower()
    if plain in _NEWER:
        return ""
    for name in PLUGINS:
        if plain == name or plain.startswith(f"{name}."):
            return name
    raise ConfigError(
        f"{GENERATION}={text!r} is not allowed: give {' or '.join(PLUGINS)}, or leave it out for "
        "0.8 and later"
    )


def find_generation(properties: Mapping[str, str]) -> Any:
    """Return the plug-in of the generation that properties name; None for the newer one.

    Raises:
        ConfigError: the generation is not known.
    """
    name = generation_name(properties)
    return import_object(GENERATION, PLUGINS[name]) if name else None


def without_generation(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the other properties."""
    return {key: value for key, value in properties.items() if key not in _SPELLINGS}
