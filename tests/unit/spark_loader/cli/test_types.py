"""Sizes and durations on the command line."""

import click
import pytest

from spark_loader.cli.types import Bytes, Seconds


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("1k", 1024), ("2MiB", 2 << 20), ("3gb", 3 << 30)]
)
def test_sizes_accept_units(text, size):
    assert Bytes().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "k", "1x", "-1", "1.5m"])
def test_invalid_size_is_refused(text):
    with pytest.raises(click.BadParameter, match="is not a size"):
        Bytes().convert(text, None, None)


def test_zero_size_is_refused_unless_allowed():
    assert Bytes(least=0).convert("0", None, None) == 0
    with pytest.raises(click.BadParameter, match="give 1 or more"):
        Bytes().convert("0", None, None)


def test_durations_must_be_positive():
    assert Seconds().convert("15m", None, None) == 900
    for text in ("soon", "0s"):
        with pytest.raises(click.BadParameter, match="give"):
            Seconds().convert(text, None, None)
