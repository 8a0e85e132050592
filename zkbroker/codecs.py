"""The compression codecs: their names and numbers, and how new a format or request has to be.

Invariant: no other module compares with one codec to learn what may hold it; a codec added here,
with its first magic and versions, is kept from older formats and clients everywhere.
"""

from enum import IntEnum
from typing import Final, Self

from zkbroker.errors import ConfigError


class Codec(IntEnum):
    """A codec by its number in the attributes: bits 0-2 of a message or batch.

    Attributes:
        first_magic: the oldest message format that may hold it.
        produce_since, fetch_since: the versions of Produce and Fetch that may carry it.
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
        """Return the codec with the name used in configurations.

        Raises:
            ConfigError: there is none of that name.
        """
        wanted = name.strip().lower()
        if wanted in ("uncompressed", ""):
            return cls.NONE
        for codec in cls:
            if wanted == codec.label:
                return codec
        raise ConfigError(
            f"unknown compression codec {name!r}: use one of {', '.join(CODEC_NAMES)}"
        )

    @property
    def label(self) -> str:
        """The name used in configurations."""
        return self.name.lower()


CODEC_NAMES: Final = tuple(codec.label for codec in Codec)
"""As in configurations; the place is the number."""

# The same by the number in the attributes, for the ways of requests; 0 for those of no codec, which
# is another error.
_NUMBERS = [next((codec for codec in Codec if codec == number), Codec.NONE) for number in range(8)]
FIRST_MAGIC: Final = tuple(codec.first_magic for codec in _NUMBERS)
PRODUCE_SINCE: Final = tuple(codec.produce_since for codec in _NUMBERS)
FETCH_SINCE: Final = tuple(codec.fetch_since for codec in _NUMBERS)
EVERY_CODEC: Final = max(PRODUCE_SINCE)
"""A version of Produce that may carry each of them."""
