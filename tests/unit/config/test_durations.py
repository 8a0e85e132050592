"""Durations with a unit."""

import pytest

from zkbroker.config.durations import parse_duration_ms
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250", 250),
        (" 250 ms ", 250),
        ("3s", 3000),
        ("15m", 900_000),
        ("15min", 900_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
    ],
)
def test_duration_with_unit_is_parsed(text, ms):
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "m", "1.5h", "-1s", "1 year", "1h30m", "١s"])
def test_invalid_duration_is_refused(text):
    with pytest.raises(ConfigError, match="is not a duration: give a number with ms, s, m, h or d"):
        parse_duration_ms(text)


def test_bare_number_is_refused_if_not_allowed():
    assert parse_duration_ms("5s", bare=False) == 5000
    with pytest.raises(ConfigError, match=r"^'5' is not a duration"):
        parse_duration_ms("5", bare=False)
