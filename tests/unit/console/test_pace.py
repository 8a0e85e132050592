from zkbroker.console.pace import Pace


def test_a_quick_question_is_asked_again_after_its_time():
    pace = Pace(5)
    assert pace.due(0)
    pace.done(1000, 2)
    assert not pace.due(5999)
    assert pace.due(6000)


def test_a_slow_question_is_asked_less_often():
    pace = Pace(5)
    pace.done(0, 300)
    assert not pace.due(59_999)
    assert pace.due(60_000)


def test_a_change_brings_it_forward_but_not_at_any_price():
    pace = Pace(5)
    pace.done(0, 300)
    pace.hurry()
    assert not pace.due(5_999)
    assert pace.due(6_000)


def test_nothing_is_put_off_for_ever():
    pace = Pace(5)
    pace.done(0, 60_000)
    assert not pace.due(119_999)
    assert pace.due(120_000)
