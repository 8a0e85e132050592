"""Where reading begins and ends: the five kinds of bound, and their JSON.

    earliest | latest | {"topic": {"0": 23, "1": -1}} | a time | {"topic": {"0": 1000}} (times, ms)

In JSON offsets -2 stands for earliest and -1 for latest, as in Spark's own Kafka source. Invariant:
a `Bound` names a position for every partition that is read; if not, the error names the missing
ones.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zkbroker.errors import ConfigError
from zkbroker.types import TopicPartition as TopicPartition
from zkbroker.types import parse_partition

LATEST = -1
EARLIEST = -2


@dataclass(frozen=True, slots=True)
class AtOffset:
    """The same place in every partition: `EARLIEST` or `LATEST`."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """One offset per partition; `EARLIEST` and `LATEST` may stand for one."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after `timestamp_ms` of every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time given for each partition, in milliseconds."""

    timestamps_ms: Mapping[TopicPartition, int]


Bound = AtOffset | AtOffsets | AtTime | AtTimes

EARLIEST_BOUND = AtOffset(EARLIEST)
LATEST_BOUND = AtOffset(LATEST)


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which partitions are read: exactly one of the three is set."""

    assign: tuple[TopicPartition, ...] = ()
    subscribe: tuple[str, ...] = ()
    pattern: str = ""


def parse_partition_numbers(text: str, option: str) -> dict[TopicPartition, int]:
    """Parse `{"topic": {"0": 23}}`.

    Args:
        text: the option's value.
        option: its name, for the message.

    Raises:
        ConfigError: it is not JSON of this form.
    """
    example = '{"topic": {"0": 23, "1": -1}}'
    parsed = _json_object(text, option, example)
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in parsed.items():
        if not isinstance(partitions, dict):
            raise _malformed(option, text, example)
        for partition, number in partitions.items():
            if isinstance(number, bool) or not isinstance(number, int):
                raise _malformed(option, text, example)
            try:
                numbers[TopicPartition(topic, parse_partition(partition))] = number
            except ValueError:
                raise _malformed(option, text, example) from None
    return numbers


def parse_assignment(text: str, option: str = "assign") -> tuple[TopicPartition, ...]:
    """Parse `{"topic": [0, 1]}`; raise ConfigError when it is not of this form.

    Partitions of Kafka 0.7 are texts: `{"topic": ["0-1", "3-0"]}`.
    """
    example = '{"topic": [0, 1]}'
    parsed = _json_object(text, option, example)
    assigned: list[TopicPartition] = []
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list):
            raise _malformed(option, text, example)
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int | str):
                raise _malformed(option, text, example)
            try:
                assigned.append(TopicPartition(topic, partition_from_json(partition)))
            except ValueError:
                raise _malformed(option, text, example) from None
    if not assigned:
        raise ConfigError(f"{option} names no partition: give JSON such as {example}")
    return tuple(sorted(set(assigned)))


def partition_from_json(found: int | str) -> int:
    """Return the partition that a checkpoint or an option holds.

    Raises:
        ValueError: it is not one.
    """
    if isinstance(found, str):
        return parse_partition(found)
    if type(found) is not int or found < 0:
        raise ValueError(f"{found!r} is not a partition")
    return found


def partition_numbers(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return numbers per partition in the JSON form, topics and partitions in order."""
    nested: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(numbers):
        nested.setdefault(topic, {})[str(partition)] = numbers[TopicPartition(topic, partition)]
    return nested


def flat_numbers(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """Return the JSON form of numbers per partition as a flat mapping."""
    return {
        TopicPartition(topic, parse_partition(partition)): number
        for topic, partitions in nested.items()
        for partition, number in partitions.items()
    }


def require_every(
    given: Mapping[TopicPartition, int], wanted: set[TopicPartition], option: str, hint: str = ""
) -> None:
    """Check that an option names exactly the partitions that are read.

    Raises:
        ConfigError: partitions are missing from it, or it names others.
    """
    missing = sorted(wanted - given.keys())
    unknown = sorted(given.keys() - wanted)
    if missing:
        raise ConfigError(
            f"{option} must name every partition that is read; it lacks "
            f"{', '.join(map(str, missing))}{hint}"
        )
    if unknown:
        raise ConfigError(
            f"{option} names partitions that are not read: {', '.join(map(str, unknown))}"
        )


def _json_object(text: str, option: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{option}={text!r} is not JSON ({error}): give {example}") from None
    if not isinstance(parsed, dict):
        raise _malformed(option, text, example)
    return parsed


def _malformed(option: str, text: str, example: str) -> ConfigError:
    return ConfigError(f"{option}={text!r} is not of the form {example}")
