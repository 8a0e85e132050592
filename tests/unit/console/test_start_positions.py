import pytest

from zkbroker.console.requests import Refused
from zkbroker.console.start_positions import Begin, Start, parse_start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start(Begin.EARLIEST)),
        (" latest ", Start(Begin.LATEST)),
        ("0", Start(Begin.OFFSET, 0)),
        ("9223372036854775807", Start(Begin.OFFSET, 2**63 - 1)),
        ("-50", Start(Begin.BACK, 50)),
        ("+7", Start(Begin.ON, 7)),
        ("@1795446755254", Start(Begin.TIME, 1795446755254)),
        ("@1970-01-01T01:00:00+01:00", Start(Begin.TIME, 0)),
        ("@1970-01-02", Start(Begin.TIME, 86_400_000)),
        ("@1970-01-01T00:00:01Z", Start(Begin.TIME, 1000)),
        ("@1969-01-01", Start(Begin.TIME, 0)),
    ],
)
def test_start_position_forms(text, start):
    assert parse_start(text) == start


@pytest.mark.parametrize(
    "text", ["", "x", "-", "--1", "+-1", "@", "@yesterday", "9" * 19, "9" * 40, "1.5", "²", "@²"]
)
def test_invalid_start_position_is_refused(text):
    with pytest.raises(Refused):
        parse_start(text)
