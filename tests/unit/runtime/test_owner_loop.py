"""The loop that waits, makes steps and retries them."""

import logging
from itertools import pairwise

from tests.support.simulated_time import Clock, Process, SimRuntime
from zkbroker.runtime import OwnerLoop

logger = logging.getLogger(__name__)


def looping(runtime, step, **more):
    return OwnerLoop(runtime, step, name="stepping", logger=logger, **more)


def started(*given, **more):
    """Start a loop and wake it."""
    loop = looping(*given, **more)
    loop.start()
    loop.set()
    return loop


def test_steps_run_when_woken_until_close(runtime):
    made = []
    seen = runtime.event()

    def step():
        made.append(1)
        seen.set()

    loop = looping(runtime, step)
    loop.start()
    assert not seen.wait(0.01), "the first step waits for a poke"
    loop.set()
    assert seen.wait(20)
    assert loop.close()
    loop.set()
    assert loop.closed
    assert made == [1]


def test_step_is_repeated_after_the_time_it_returns(runtime):
    made = []
    thrice = runtime.event()

    def step():
        made.append(1)
        if len(made) == 3:
            thrice.set()
        return 0.001 if len(made) < 3 else None

    loop = started(runtime, step)
    assert thrice.wait(20)
    loop.close()
    assert len(made) == 3


def test_failed_step_is_repeated_and_logged_once(runtime, caplog):
    troubles = [LookupError("a"), LookupError("a"), OSError("b"), LookupError("a")]
    failed = []
    done = runtime.event()

    def step():
        if troubles:
            raise troubles.pop(0)
        done.set()

    more = {"foreseen": (OSError,), "on_failure": failed.append}
    loop = started(runtime, step, retry_s=0.001, **more)
    assert done.wait(20)
    loop.close()
    assert [str(error) for error in failed] == ["a", "a", "b", "a"]
    logged = [record for record in caplog.records if "stepping failed" in record.getMessage()]
    assert [bool(record.exc_info) for record in logged] == [True, False, True]


def test_no_step_runs_before_ready(runtime):
    there = runtime.event()
    made = []
    done = runtime.event()

    def step():
        made.append(there.is_set())
        done.set()

    loop = started(runtime, step, retry_s=0.001, ready=there.wait)
    assert not done.wait(0.02)
    there.set()
    assert done.wait(20)
    loop.close()
    assert made == [True]


def test_close_ends_a_loop_that_waits_to_be_ready(runtime):
    loop = started(runtime, lambda: None, retry_s=0.001, ready=runtime.event().wait)
    assert loop.close(20)


def test_ended_loop_logs_no_failure(runtime, caplog):
    over = []

    def step():
        over.append(1)
        raise LookupError("closed")

    loop = started(runtime, step, ended=lambda: bool(over))
    assert loop._task.join(20)
    assert caplog.text == ""


def test_retry_pause_doubles_up_to_its_limit():
    clock = Clock()
    runtime = SimRuntime(clock, Process("p"))
    made = []

    def step():
        made.append(clock.now)
        if len(made) < 6:
            raise LookupError("again")

    loop = looping(runtime, step, retry_s=0.1, retry_max_s=0.4)
    loop.start(first_s=0.0)
    clock.run(10.0)
    pauses = [round(b - a, 3) for a, b in pairwise(made)]
    assert pauses == [0.1, 0.2, 0.4, 0.4, 0.4]
