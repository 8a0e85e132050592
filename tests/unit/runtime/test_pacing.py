import threading

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.runtime.pacing import paced, side_by_side


class RecordingRuntime:
    def __init__(self):
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)


def test_other_tasks_run_after_every_n_items():
    runtime = RecordingRuntime()
    assert list(paced(runtime, range(10), every=4)) == list(range(10))
    assert runtime.slept == [0, 0]
    assert list(paced(runtime, range(3), every=4)) == [0, 1, 2]
    assert runtime.slept == [0, 0]


def test_steps_run_concurrently_up_to_the_limit():
    together = threading.Barrier(3)
    done = []

    def step(item):
        together.wait(10)
        done.append(item)

    side_by_side(get_runtime("threads"), range(6), step, 3, "steps")
    assert sorted(done) == list(range(6))


def test_error_of_a_step_is_raised_after_the_others():
    done = []

    def step(item):
        if item == 1:
            raise ValueError(item)
        done.append(item)

    with pytest.raises(ValueError, match="1"):
        side_by_side(get_runtime("threads"), range(4), step, 2, "steps")
    assert {2, 3} & set(done)
    side_by_side(get_runtime("threads"), [], step, 2, "steps")
