"""Partitioners: they choose the partition of a message.

    explicit partition             wins, no partitioner is asked
    key or partition key given     partitioner.partition(key, num_partitions), over all partitions
    no key                         partitioner.choose(topic, available), over those with a leader
    a `MessagePartitioner`         is asked for each message, with key or without

Invariant: for the same key and number of partitions, `DefaultPartitioner` agrees with the Java
client (0.8.2 and later), and `LegacyHashPartitioner` with the Scala producer, so that producers of
all kinds write a key to one partition.
"""

import inspect
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Protocol, runtime_checkable

from zkbroker.producer.cluster_metadata import ClusterMetadata
from zkbroker.protocol.java_hash import string_hash

_INT_MIN = -(2**31)
_MASK32 = 0xFFFFFFFF
_MASK31 = 0x7FFFFFFF

_string_hash = lru_cache(maxsize=16_384)(string_hash)


@runtime_checkable
class Partitioner(Protocol):
    """The interface of a user's partitioner.

    A partitioner may also have `choose(topic, available)` for messages without a key, `deal(topic,
    available, number)` for many of them at once, and `encoded_key = True` to get the encoded key
    (bytes) instead of the object.
    """

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return a partition from 0 to `num_partitions - 1`."""


@runtime_checkable
class MessagePartitioner(Protocol):
    """The other form: it sees the whole message, and the cluster.

    It is recognised by the six arguments of its `partition`. The producer closes one with a
    `close()`.
    """

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterMetadata,
    ) -> int:
        """Return a partition of the topic.

        Args:
            topic: of the message.
            key: as given to `send`; the partition key where there is one; None without.
            key_bytes: the key, encoded.
            value: as given to `send`; its bytes where only bytes were given.
            value_bytes: the value, encoded.
            cluster: the known partitions and brokers; it never waits.
        """


_WHOLE_MESSAGE_ARGUMENTS = 6


def sees_whole_message(partitioner: object) -> bool:
    """Whether a partitioner has the form of `MessagePartitioner`."""
    try:
        parameters = inspect.signature(getattr(partitioner, "partition")).parameters  # noqa: B009 - of a user's object
    except (TypeError, ValueError, AttributeError):
        return False  # written in C, or not a method at all, which is reported elsewhere
    required = [
        each
        for each in parameters.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return len(required) == _WHOLE_MESSAGE_ARGUMENTS


@lru_cache(maxsize=16_384)
def murmur2(data: bytes) -> int:
    """Hash bytes as the Java client does: 32-bit MurmurHash2, seed 0x9747b28c; signed."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0x5BD1E995 & _MASK32
        k = (k ^ (k >> 24)) * 0x5BD1E995 & _MASK32
        h = (h * 0x5BD1E995 & _MASK32) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & _MASK32
    h = (h ^ (h >> 13)) * 0x5BD1E995 & _MASK32
    h ^= h >> 15
    return h - 2**32 if h > _MASK31 else h


def java_hash(key: Any) -> int:
    """Return Java's `hashCode` of the matching type; signed, 32 bits.

    `str` is `String` (over UTF-16 code units), `bytes` is `Arrays.hashCode(byte[])`, `bool` is
    `Boolean`, an `int` is `Integer` where it fits in 32 bits and `Long` otherwise, None is 0.

    Raises:
        TypeError: there is no Java counterpart whose hash is defined.
    """
    if key is None:
        return 0
    if isinstance(key, str):
        return _string_hash(key)
    if isinstance(key, bytes | bytearray | memoryview):
        h = 1
        for byte in bytes(key):
            h = (31 * h + (byte - 256 if byte > 127 else byte)) & _MASK32
        return _signed(h)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        if _INT_MIN <= key <= _MASK31:
            return key
        return _signed((key ^ ((key & 0xFFFFFFFFFFFFFFFF) >> 32)) & _MASK32)
    raise TypeError(
        f"a key of type {type(key).__name__} has no Java hashCode: use str, bytes, int or bool"
    )


def _signed(h: int) -> int:
    return h - 2**32 if h > _MASK31 else h


class RoundRobinPartitioner:
    """Gives the partitions in turn, to messages with and without a key."""

    def __init__(self) -> None:
        # `next` of a counter is atomic, so that threads need no lock.
        self._turn = count(random.randrange(2**16))  # noqa: S311 - spreads load, guards nothing

    def partition(self, key: Any, num_partitions: int) -> int:
        return next(self._turn) % num_partitions

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return available[next(self._turn) % len(available)]

    def deal(
        self, topic: str, available: Sequence[int], number: int
    ) -> Iterator[tuple[int, slice]]:
        """Take `number` turns at once; yield each partition with its share of the messages."""
        first = next(self._turn)
        self._turn = count(first + number)
        hands = len(available)
        for hand in range(min(hands, number)):
            yield available[(first + hand) % hands], slice(hand, None, hands)


class DefaultPartitioner(RoundRobinPartitioner):
    """The Java client's: `murmur2(key bytes) & 0x7fffffff`; no key: round-robin."""

    encoded_key = True

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition for the key's bytes; a `str` counts as its UTF-8 bytes."""
        if key is None:
            return super().partition(key, num_partitions)
        data = key.encode() if isinstance(key, str) else bytes(key)
        return (murmur2(data) & _MASK31) % num_partitions


class RandomPartitioner:
    """A random partition for every message, keyed or not."""

    def partition(self, key: Any, num_partitions: int) -> int:
        return random.randrange(num_partitions)  # noqa: S311 - spreads load, guards nothing

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return random.choice(available)  # noqa: S311 - spreads load, guards nothing


class StickyPartitioner(DefaultPartitioner):
    """Messages without a key stay on one random partition until the next metadata refresh.

    Keyed messages go where `DefaultPartitioner` puts them. The 0.8 producer treated messages
    without a key in this way; it makes the largest batches.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stuck: dict[str, int] = {}

    def choose(self, topic: str, available: Sequence[int]) -> int:
        partition = self._stuck.get(topic)
        if partition is None or partition not in available:
            partition = random.choice(available)  # noqa: S311 - spreads load, guards nothing
            self._stuck[topic] = partition
        return partition

    def deal(
        self, topic: str, available: Sequence[int], number: int
    ) -> Iterator[tuple[int, slice]]:
        """Yield the one partition with all messages."""
        yield self.choose(topic, available), slice(None)

    def on_refresh(self, topic: str) -> None:
        """Choose again for the next message; called after each metadata refresh of the topic."""
        self._stuck.pop(topic, None)


class LegacyHashPartitioner:
    """The Scala producer's: a non-negative form of Java's `hashCode` modulo the partitions.

    Args:
        mask: how a negative hash becomes positive. False as `Math.abs` in 0.7 and since 0.8.2
            (the smallest int becomes 0); True as `h & 0x7fffffff` in 0.8.0 and 0.8.1.
    """

    def __init__(self, mask: bool = False) -> None:
        self._mask = mask
        self._sticky = StickyPartitioner()

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition for `str`, `bytes`, `int` or `bool` keys; see `java_hash`."""
        h = java_hash(key)
        if self._mask:
            return (h & _MASK31) % num_partitions
        return (0 if h == _INT_MIN else abs(h)) % num_partitions

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return self._sticky.choose(topic, available)

    def on_refresh(self, topic: str) -> None:
        self._sticky.on_refresh(topic)


class LegacyMaskPartitioner(LegacyHashPartitioner):
    """`LegacyHashPartitioner(mask=True)` under a name that a properties file can give."""

    def __init__(self) -> None:
        super().__init__(mask=True)
