"""The progress display of a load."""

import pytest

from spark_loader.cli.progress import (
    LINE_EVERY_S,
    LoadPace,
    ProgressBar,
    ProgressLines,
    figures,
    lasting,
    sized,
)
from spark_loader.load.progress import Progress
from tests.support.clocks import Clock


def at(rows, planned=1000, size=0, lag=0, stage="load"):
    return Progress(stage=stage, rows=rows, planned_rows=planned, bytes=size, lag=lag)


def test_figures_show_rows_bytes_rates_lag_and_time_left():
    clock = Clock(0.0)
    pace = LoadPace(clock)
    pace.add(at(0))
    assert figures(at(0, lag=1200), pace) == "0/1,000 rows  0 B  lag 1,200"
    clock.now = 2.0
    pace.add(at(100, size=4096))
    assert figures(at(100, size=4096, lag=1100), pace) == (
        "100/1,000 rows  4.0 KiB  50 rows/s, 2.0 KiB/s  lag 1,100  about 18 s left"
    )
    assert figures(Progress(stage="start"), pace) == ""


def test_pace_covers_recent_seconds_and_resets_for_new_run():
    clock = Clock(0.0)
    pace = LoadPace(clock)
    for second in range(100):
        clock.now = float(second)
        pace.add(at(second * 10 if second < 50 else 500 + (second - 50) * 2, planned=10_000))
    assert pace.rates() == (2.0, 0.0)
    pace.add(at(0))
    assert pace.rates() is None
    assert pace.seconds_left(at(0)) is None


def test_progress_lines_are_rate_limited():
    clock = Clock(0.0)
    lines = []
    with ProgressLines(lines.append, clock) as shown:
        for step in range(1000):
            clock.now = step * 0.05
            shown.update(at(step, lag=1000 - step))
    assert 3 <= len(lines) <= 50 / LINE_EVERY_S
    assert lines[0].startswith("loading: 200/1,000 rows")
    assert lines[0].endswith("about 40 s left")
    with ProgressLines(lines.append, clock) as shown:
        shown.update(at(1, stage="plan"))
    assert len(lines) <= 50 / LINE_EVERY_S


def test_progress_lines_go_to_stderr(capsys):
    clock = Clock(0.0)
    shown = ProgressLines(clock=clock)
    clock.now = LINE_EVERY_S
    shown.update(Progress(stage="start"))
    assert capsys.readouterr() == ("", "starting Spark, which takes some seconds\n")
    clock.now *= 2
    shown.update(Progress(stage="done"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (59, "59 s"), (200, "3:20 min"), (7530, "2:05 h")]
)
def test_durations_are_formatted(seconds, text):
    assert lasting(seconds) == text


def test_sizes_are_formatted():
    assert [sized(n) for n in (0, 1023, 1536, 5 << 30, 9 << 50)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
        "9216.0 TiB",
    ]


def test_progress_bar_shows_stage_and_figures():
    with ProgressBar() as bar:
        for stage, words in (
            ("plan", "planning"),
            ("start", "starting Spark"),
            ("load", "loading"),
        ):
            bar.update(Progress(stage=stage, rows=1, planned_rows=1 if stage == "load" else 0))
            [task] = bar._bars.tasks
            assert words in task.description
            assert ("1/1 row " in task.fields["figures"]) == (stage == "load")
