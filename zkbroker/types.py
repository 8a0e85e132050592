"""The name of a partition, once for all rooms.

Invariant: a `TopicPartition` equals and hashes like the plain pair, so that what takes a
`PartitionKey` takes both; a `Partition07` is one number, so that it may stand in either.
"""

import re
from typing import Final, NamedTuple, Self, TypeAlias

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition number; a `TopicPartition` is one."""

_TEXT = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
_TEXT_07 = re.compile(r"(\d{1,10})-(\d{1,5})", re.ASCII)


class TopicPartition(NamedTuple):
    """A partition of a topic; its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> "TopicPartition":
        """Parse a directory's name; the partition follows the last dash.

        Raises:
            ValueError: it is not the name of a partition's directory.
        """
        match = _TEXT.fullmatch(text)
        if match is None or match.group(1) in (".", ".."):
            raise ValueError(f"{text!r} is not topic-partition")
        return cls(match.group(1), int(match.group(2)))


class Partition07(int):
    """A partition of Kafka 0.7: the broker that has it for ever, and its number there.

        broker << 16 | number      text: broker-number

    It is a number, so that it takes the place of one; it sorts by broker, then number, and its text
    is its name in the registry.

    Args:
        broker: id of the broker.
        number: of the partition on that broker.

    Raises:
        ValueError: a number is below 0, or that of the partition above `MAX_NUMBER`.
    """

    __slots__ = ()
    MAX_NUMBER: Final = 0xFFFF

    def __new__(cls, broker: int, number: int) -> Self:
        if broker < 0 or not 0 <= number <= cls.MAX_NUMBER:
            raise ValueError(
                f"{broker}-{number} is no partition of Kafka 0.7 that is served here: numbers go "
                f"from 0 to {cls.MAX_NUMBER}"
            )
        return super().__new__(cls, broker << 16 | number)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `broker-number`.

        Raises:
            ValueError: it is not of that form.
        """
        found = _TEXT_07.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no partition of Kafka 0.7: broker-number")
        return cls(int(found[1]), int(found[2]))

    @classmethod
    def from_number(cls, number: int) -> Self:
        """Return the partition that a plain number stands for."""
        return cls(number >> 16, number & cls.MAX_NUMBER)

    @property
    def broker(self) -> int:
        return self >> 16

    @property
    def number(self) -> int:
        """Its number on the broker, as requests have it."""
        return self & self.MAX_NUMBER

    def __str__(self) -> str:
        return f"{self.broker}-{self.number}"

    def __repr__(self) -> str:
        return f"Partition07({self.broker}, {self.number})"

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (self.broker, self.number)


def parse_partition(text: str) -> int:
    """Parse the text of a partition's number: of either form.

    Raises:
        ValueError: it is of neither.
    """
    return int(text) if text.isdecimal() else Partition07.parse(text)
