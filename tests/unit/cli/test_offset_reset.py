import time

import pytest

from zkbroker.admin.reset_offsets import Way, read_offsets
from zkbroker.cli.offset_reset import parse_target
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "way", "value"),
    [
        ("earliest", Way.TIME, -2),
        ("latest", Way.TIME, -1),
        ("2026-11-23", Way.TIME, 1795392000000),
        ("2026-11-23T10:00:00+01:00", Way.TIME, 1795424400000),
        ("1431857100000", Way.TIME, 1431857100000),
        ("current", Way.CURRENT, 0),
        ("offset:5", Way.OFFSET, 5),
        ("shift:-5", Way.SHIFT, -5),
        ("shift:+5", Way.SHIFT, 5),
    ],
)
def test_reset_target_forms(text, way, value):
    target = parse_target(text)
    assert (target.way, target.value) == (way, value)


@pytest.mark.parametrize("text", ["PT2H", "2h", "P0DT1H60M", "7200s"])
def test_duration_is_subtracted_from_now(text, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 10_000.0)
    assert parse_target(f"duration:{text}").value == 10_000_000 - 7_200_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("offset:-1", "give offset:N"),
        ("offset:", "give offset:N"),
        ("shift:x", "give shift:N"),
        ("duration:5", "not a duration"),
        ("duration:P", "not a duration"),
    ],
)
def test_invalid_reset_target_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_target(text)


def test_offset_file_lines():
    found = read_offsets(["visits,0,5\n", "\n", "visits,1,0\n"])
    assert found == {("visits", 0): 5, ("visits", 1): 0}
    with pytest.raises(ConfigError, match="line 2 is not topic,partition,offset"):
        read_offsets(["visits,0,5\n", "visits,1\n"])
    with pytest.raises(ConfigError, match="line 2 names visits-0 again"):
        read_offsets(["visits,0,5\n", "visits,0,6\n"])
