import threading

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.runtime.pacing import paced, side_by_side


class Counting:
    def __init__(self):
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)


def test_others_get_a_turn_after_every_so_many_items():
    runtime = Counting()
    assert list(paced(runtime, range(10), every=4)) == list(range(10))
    assert runtime.slept == [0, 0]
    assert list(paced(runtime, range(3), every=4)) == [0, 1, 2]
    assert runtime.slept == [0, 0]


def test_steps_that_wait_are_done_side_by_side_and_no_more_than_so_many():
    together = threading.Barrier(3)
    done = []

    def step(item):
        together.wait(10)
        done.append(item)

    side_by_side(get_runtime("threads"), range(6), step, 3, "steps")
    assert sorted(done) == list(range(6))


def test_what_a_step_raises_is_raised_when_the_others_are_done():
    done = []

    def step(item):
        if item == 1:
            raise ValueError(item)
        done.append(item)

    with pytest.raises(ValueError, match="1"):
        side_by_side(get_runtime("threads"), range(4), step, 2, "steps")
    assert {2, 3} & set(done)
    side_by_side(get_runtime("threads"), [], step, 2, "steps")
