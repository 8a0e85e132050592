"""The compression codecs: their names, numbers, and first message formats and request versions.

Invariant: no other module compares with a single codec to decide whether a format or request may
carry it. A codec that is added here, with its first magic and versions, is therefore refused in
older formats and requests everywhere.
"""

from enum import IntEnum
from typing import Final, Self

from zkbroker.errors import ConfigError


class Codec(IntEnum):
    """A codec by its number in the attributes: bits 0-2 of a message or batch.

    Attributes:
        first_magic: the oldest message format that may use it.
        produce_since, fetch_since: the first versions of Produce and Fetch that may carry it.
    """

    first_magic: int
    produce_since: int
    fetch_since: int

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4, 2, 7, 10

    def __new__(
        cls, number: int, first_magic: int = 0, produce_since: int = 0, fetch_since: int = 0
    ) -> Self:
        codec = int.__new__(cls, number)
        codec._value_ = number
        codec.first_magic = first_magic
        codec.produce_since = produce_since
        codec.fetch_since = fetch_since
        return codec

    @classmethod
    def from_name(cls, name: str) -> "Codec":
        """Return the codec with a name used in configurations.

        Raises:
            ConfigError: no codec has that name.
        """
        wanted = name.strip().lower()
        if wanted in ("uncompressed", ""):
            return cls.NONE
        if wanted in CODEC_NAMES:
            return cls[wanted.upper()]
        raise ConfigError(
            f"unknown compression codec {name!r}: use one of {', '.join(CODEC_NAMES)}"
        )

    @property
    def label(self) -> str:
        """The name used in configurations."""
        return self.name.lower()


CODEC_NAMES: Final = tuple(codec.label for codec in Codec)
"""The names used in configurations, in the order of the codecs' numbers."""

# Attributes of the codecs by their number, for speed with requests; 0 for numbers without a codec,
# which are refused elsewhere.
_NUMBERS = [next((codec for codec in Codec if codec == number), Codec.NONE) for number in range(8)]
FIRST_MAGIC: Final = tuple(codec.first_magic for codec in _NUMBERS)
PRODUCE_SINCE: Final = tuple(codec.produce_since for codec in _NUMBERS)
FETCH_SINCE: Final = tuple(codec.fetch_since for codec in _NUMBERS)
EVERY_CODEC: Final = max(PRODUCE_SINCE)
"""The first version of Produce that may carry every codec."""
