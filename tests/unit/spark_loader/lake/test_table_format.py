"""Hours up to one of a day."""

from spark_loader.lake.table_format import Hours


def test_hours_are_those_of_earlier_days_and_of_the_last_one_up_to_an_hour():
    hours = Hours("2026-11-23", 5)
    assert hours.holds("2026-11-22", 23)
    assert hours.holds("2026-11-23", 4)
    assert not hours.holds("2026-11-23", 5)
    assert not hours.holds("2026-11-24", 0)
