"""Which generation of Kafka a client's properties are about: `kafka.generation`.

Invariant: a generation that is not known is refused by name; without the key it is the newer one,
0.8 and everything after it.
"""

from collections.abc import Mapping

from zkbroker.errors import ConfigError

GENERATION = "kafka.generation"
_SPELLINGS = (GENERATION, "protocol.generation")
_NEWER = ("", "0.8", "auto")


def is_07(properties: Mapping[str, str]) -> bool:
    """Whether properties are about a cluster of Kafka 0.7.

    Raises:
        ConfigError: the generation is not known.
    """
    given = next((properties[key] for key in _SPELLINGS if key in properties), "")
    return parse_generation(given)


def parse_generation(text: str) -> bool:
    """Whether a text names the generation 0.7.

    Raises:
        ConfigError: it names none.
    """
    plain = text.strip().lower()
    if plain in _NEWER:
        return False
    if plain == "0.7" or plain.startswith("0.7."):
        return True
    raise ConfigError(
        f"{GENERATION}={text!r} is not allowed: give 0.7, or leave it out for 0.8 and later"
    )


def without_generation(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the other properties."""
    return {key: value for key, value in properties.items() if key not in _SPELLINGS}
