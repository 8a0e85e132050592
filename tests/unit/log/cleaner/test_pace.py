from zkbroker.log.cleaner.pace import Pace


def test_work_is_followed_by_a_rest():
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


def test_another_thread_with_a_younger_clock_rests_once():
    worked, rests = [5.0], []
    pace = Pace(clock=lambda: worked[0], sleep=rests.append)
    worked[0] = 0.0
    pace.rest()
    pace.rest()
    assert rests == [0.0001]
