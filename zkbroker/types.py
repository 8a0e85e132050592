"""The names of partitions, for all packages.

Invariant: a `TopicPartition` equals and hashes like the plain pair, so that both serve as a
`PartitionKey`. A `Partition07` is a single number, so that it can be the partition in either.
"""

import re
from typing import Final, NamedTuple, Self, TypeAlias

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition number; a `TopicPartition` is one."""

_TEXT = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})", re.ASCII)
_TEXT_07 = re.compile(r"(\d{1,10})-(\d{1,5})", re.ASCII)


class TopicPartition(NamedTuple):
    """A partition of a topic; its string is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "TopicPartition":
        """Parse the name of a directory; the partition follows the last dash.

        Raises:
            ValueError: the text is not the name of a partition's directory.
        """
        match = _TEXT.fullmatch(text)
        if match is None or match.group(1) in (".", ".."):
            raise ValueError(f"{text!r} is not topic-partition")
        return cls(match.group(1), int(match.group(2)))


class Partition07(int):
    """A partition of Kafka 0.7: the broker to which it belongs for ever, and its number there.

        broker << 16 | number      string: broker-number

    It is an int, so that it can take the place of a partition number. It sorts by broker, then by
    number, and its string is its name in the registry.

    Args:
        broker: id of the broker.
        number: of the partition on that broker.

    Raises:
        ValueError: the broker or number is negative, or the number is above `MAX_NUMBER`.
    """

    __slots__ = ()
    MAX_NUMBER: Final = 0xFFFF

    def __new__(cls, broker: int, number: int) -> Self:
        if broker < 0 or not 0 <= number <= cls.MAX_NUMBER:
            raise ValueError(
                f"{broker}-{number} is no partition of Kafka 0.7 that is supported here: numbers "
                f"are 0 to {cls.MAX_NUMBER}"
            )
        return super().__new__(cls, broker << 16 | number)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `broker-number`.

        Raises:
            ValueError: the text does not have that form.
        """
        found = _TEXT_07.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no partition of Kafka 0.7 of the form broker-number")
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def from_number(cls, number: int) -> Self:
        """Return the partition of a plain number."""
        return cls(number >> 16, number & cls.MAX_NUMBER)

    @property
    def broker(self) -> int:
        return self >> 16

    @property
    def number(self) -> int:
        """The number on the broker, which requests contain."""
        return self & self.MAX_NUMBER

    def __str__(self) -> str:
        return f"{self.broker}-{self.number}"

    def __repr__(self) -> str:
        return f"Partition07({self.broker}, {self.number})"

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (self.broker, self.number)


def parse_partition(text: str) -> int:
    """Parse a partition: a number, or `broker-number` of Kafka 0.7.

    Raises:
        ValueError: the text has neither form.
    """
    return int(text) if text.isdecimal() else Partition07.parse(text)
