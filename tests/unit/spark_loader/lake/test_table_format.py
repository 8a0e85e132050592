"""Hours before a limit."""

from spark_loader.lake.table_format import Hours


def test_hours_before_limit_are_included():
    hours = Hours("2026-11-23", 5)
    assert hours.holds("2026-11-22", 23)
    assert hours.holds("2026-11-23", 4)
    assert not hours.holds("2026-11-23", 5)
    assert not hours.holds("2026-11-24", 0)
