import pytest

from zkbroker.cli.positions import Anchor, Position, Range, parse_range
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), Range(Position(Anchor.BEGINNING))),
        (("beginning",), Range(Position(Anchor.BEGINNING))),
        (("end",), Range(Position(Anchor.END))),
        (("latest",), Range(Position(Anchor.END))),
        (("stored",), Range(Position(Anchor.STORED))),
        (("42",), Range(Position(Anchor.OFFSET, 42))),
        (("-10",), Range(Position(Anchor.END, 10))),
        (("s@1500",), Range(Position(Anchor.TIME, 1500))),
        (("s@1500", "e@2000"), Range(Position(Anchor.TIME, 1500), Position(Anchor.TIME, 2000))),
        (("e@2000",), Range(Position(Anchor.BEGINNING), Position(Anchor.TIME, 2000))),
    ],
)
def test_positions_of_kcat_are_parsed(texts, expected):
    assert parse_range(texts) == expected


@pytest.mark.parametrize("text", ["middle", "", "s@", "e@noon", "-", "1.5", "٣"])
def test_invalid_position_is_refused_with_the_allowed_forms(text):
    with pytest.raises(ConfigError, match="give beginning, end, stored"):
        parse_range((text,))
