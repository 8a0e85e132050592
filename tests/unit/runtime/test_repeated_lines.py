"""Repeated log lines are written once a period, with a count."""

from tests.support.clocks import Clock
from zkbroker.runtime.repeated_lines import RepeatedLines


def test_one_line_per_period_counts_the_suppressed_ones():
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


def test_number_of_remembered_kinds_is_bounded():
    lines = RepeatedLines(60, max_kinds=2, clock=Clock(0))
    assert [lines.admit(kind) for kind in "abc"] == [0, 0, 0]
    assert lines.admit("c") is None
    assert lines.admit("a") == 0
