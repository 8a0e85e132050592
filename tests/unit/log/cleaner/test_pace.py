from zkbroker.log.cleaner.pace import Pace


def test_pace_rests_after_work():
    worked, rests = [0.0], []
    pace = Pace(clock=lambda: worked[0], sleep=rests.append)
    pace.rest()
    worked[0] = 0.0002
    pace.rest()
    assert rests == []
    worked[0] = 0.00035
    pace.rest()
    pace.rest()
    assert rests == [0.0001]


def test_pace_rests_once_when_clock_goes_back():
    worked, rests = [5.0], []
    pace = Pace(clock=lambda: worked[0], sleep=rests.append)
    worked[0] = 0.0
    pace.rest()
    pace.rest()
    assert rests == [0.0001]
