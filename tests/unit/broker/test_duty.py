"""The controller's work, done again until it succeeds, and by nobody else."""

import gevent.event
import pytest

from zkbroker.broker import duty as module
from zkbroker.broker.duty import ControllerDuty
from zkbroker.errors import RegistryError


class Work(ControllerDuty):
    def __init__(self, *outcomes):
        super().__init__()
        self.outcomes = list(outcomes)
        self.done = gevent.event.Event()

    def work(self):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        if not self.outcomes:
            self.done.set()
        return outcome


@pytest.mark.parametrize("failure", [RegistryError("away"), LookupError("a defect")])
def test_what_fails_is_done_again(monkeypatch, caplog, failure):
    monkeypatch.setattr(module, "RETRY_S", 0.001)
    work = Work(failure, 0.001, None)
    work.begin()
    work.elected()
    assert work.done.wait(20)
    work.end()
    assert caplog.text.count("Work tried again") == 1


def test_nothing_is_done_without_the_office():
    work = Work(None, None)
    work.begin()
    work.poke()
    gevent.sleep(0)
    work.elected()
    work.resigned()
    gevent.sleep(0)
    assert len(work.outcomes) == 2
    work.end()
