import pytest

from zkbroker.console.pace import QuestionPace


@pytest.mark.parametrize(
    ("took_ms", "hurried", "due_ms"),
    [
        (2, False, 5_000),
        (300, False, 60_000),
        (60_000, False, 120_000),
        (300, True, 6_000),
    ],
    ids=["least pause", "share of the time", "longest pause", "hurried share"],
)
def test_next_question_is_due_after_a_pause(took_ms, hurried, due_ms):
    pace = QuestionPace(5)
    assert pace.due(0)
    pace.done(1000, took_ms)
    if hurried:
        pace.hurry()
    assert not pace.due(1000 + due_ms - 1)
    assert pace.due(1000 + due_ms)
