from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from tests.support.stored_partitions import Stored, StoredCluster
from zkbroker.cli import transactions
from zkbroker.cli.transactions import _span, command, duration_ms

BROKER = ("-b", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "ms"),
    [("15m", 900_000), ("0s", 0), ("250ms", 250), ("2h", 7_200_000), ("1d", 864 * 10**5)],
)
def test_duration_units(text, ms):
    assert duration_ms(None, None, text) == ms


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (999, "999 ms"),
        (59_999, "59 s"),
        (60_000, "1 m"),
        (61_000, "1 m 1 s"),
        (3_600_000, "1 h"),
        (5_430_000, "1 h 30 m"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_span_is_shown_in_two_units(ms, text):
    assert _span(ms) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("find-hanging", "--older-than", "15"),
            "'15' is not a duration: give a number with ms, s",
        ),
        (("find-hanging", "--older-than", "soon"), "'soon' is not a duration"),
        (("find-hanging", "-p", "0"), "--partition needs --topic"),
        (("list", "--state", "Open"), "'Open' is not a state: give one of Empty, Ongoing"),
        (("abort",), "which transaction? give a TRANSACTIONAL_ID"),
        (("abort", "-t", "a", "-p", "0"), "which transaction?"),
        (("abort", "x", "-t", "a"), "give it alone"),
        (("abort", "x", "--force"), "give it alone"),
        (("abort", "-t", "a", "-p", "-1", "--start-offset", "0"), "-1 is not in the range"),
        (("describe",), "Missing argument 'TRANSACTIONAL_ID'"),
    ],
)
def test_invalid_arguments_are_usage_errors(arguments, message):
    ran = CliRunner(env={"COLUMNS": "200"}).invoke(command, [*arguments, *BROKER])
    assert ran.exit_code == 2
    assert message in ran.output


def test_partitions_without_a_leader_are_warned_of(monkeypatch):
    first, *others = [("t", number) for number in range(8)]
    stored = StoredCluster({key: Stored() for key in (first, *others)}, leaderless=others)
    monkeypatch.setattr(transactions, "open_cluster", lambda *given: nullcontext(stored))
    ran = CliRunner().invoke(command, ["find-hanging", "-t", "t", *BROKER])
    assert ran.exit_code == 0, ran.output
    assert "not checked: t-1, t-2, t-3, t-4, t-5 and 2 more" in ran.stderr
    assert "no transaction hangs" in ran.stdout
    ran = CliRunner().invoke(command, ["find-hanging", "-t", "t", "-p", "0", *BROKER])
    assert "not checked" not in ran.stderr
