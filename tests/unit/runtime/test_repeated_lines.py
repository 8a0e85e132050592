"""Which of many equal log lines are written."""

from tests.support.clocks import Clock
from zkbroker.runtime.repeated_lines import RepeatedLines


def test_one_line_of_a_kind_in_a_period_tells_how_many_were_left_out():
    clock = Clock(0)
    lines = RepeatedLines(60, clock=clock)
    assert lines.admit("a") == 0
    assert [lines.admit("a") for _ in range(5)] == [None] * 5
    assert lines.admit("b") == 0
    clock.now = 59.9
    assert lines.admit("a") is None
    clock.now = 60.0
    assert lines.admit("a") == 6
    assert lines.admit("a") is None


def test_few_kinds_are_remembered():
    lines = RepeatedLines(60, max_kinds=2, clock=Clock(0))
    assert [lines.admit(kind) for kind in "abc"] == [0, 0, 0]
    assert lines.admit("c") is None
    assert lines.admit("a") == 0
