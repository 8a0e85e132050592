"""Positions and assignments in JSON."""

import pytest

from spark_loader.reading.positions import (
    TopicPartition,
    flat_numbers,
    parse_assignment,
    parse_partition_numbers,
    partition_numbers,
    require_every,
)
from zkbroker.errors import ConfigError

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partition_numbers_round_trip_in_order():
    numbers = parse_partition_numbers('{"t": {"1": -1, "0": 23}}', "startingOffsets")
    assert numbers == {T0: 23, T1: -1}
    assert partition_numbers(numbers) == {"t": {"0": 23, "1": -1}}
    assert list(partition_numbers(numbers)["t"]) == ["0", "1"]
    numbers[TopicPartition("s", 10)] = 7
    assert flat_numbers(partition_numbers(numbers)) == numbers


@pytest.mark.parametrize(
    "text", ["", "[]", '{"t": 1}', '{"t": {"x": 1}}', '{"t": {"0": true}}', '{"t": {"0": "1"}}']
)
def test_malformed_partition_numbers_are_refused(text):
    with pytest.raises(ConfigError, match=r"startingOffsets=.*\{\"topic\": \{\"0\": 23"):
        parse_partition_numbers(text, "startingOffsets")


def test_assignment_is_sorted_and_unique():
    assert parse_assignment('{"t": [1, 0, 1]}') == (T0, T1)


@pytest.mark.parametrize("text", ["{}", '{"t": []}', '{"t": [-1]}', '{"t": [true]}', '{"t": 0}'])
def test_malformed_assignment_is_refused(text):
    with pytest.raises(ConfigError, match="assign"):
        parse_assignment(text)


def test_missing_and_unknown_partitions_are_refused():
    with pytest.raises(ConfigError, match="it lacks t-1, say so"):
        require_every({T0: 1}, {T0, T1}, "o", ", say so")
    with pytest.raises(ConfigError, match="not read: t-1"):
        require_every({T0: 1, T1: 1}, {T0}, "o")
    require_every({T0: 1}, {T0}, "o")
