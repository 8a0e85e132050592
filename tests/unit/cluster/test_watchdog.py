import pytest

from zkbroker.cluster.watchdog import FIRST_PAUSE_S, LONGEST_PAUSE_S, SETTLED_S, Watchdog
from zkbroker.errors import ZkbrokerError


class FakeProcess:
    def __init__(self, name):
        self.name = name
        self.alive = True
        self.ready = True
        self.launches = 0

    def ending(self):
        return "was ended by SIGKILL"

    def launch(self):
        self.launches += 1
        self.alive = True

    def poll_ready(self):
        if not self.alive:
            raise ZkbrokerError(f"{self.name} exited with status 1 before it was ready: no space")
        return self.ready

    def kill(self):
        self.alive = False


class WatchedBrokers:
    """Two brokers, their watchdog, and a clock."""

    def __init__(self, restart=True):
        self.now = 100.0
        self.lines = []
        self.first, self.second = FakeProcess("broker 1"), FakeProcess("broker 2")
        self.watchdog = Watchdog(
            [self.first, self.second],
            restart=restart,
            report=self.lines.append,
            clock=lambda: self.now,
        )

    def look(self, after=0.0):
        self.now += after
        self.watchdog.look()


def test_dead_broker_is_reported_and_restarted():
    watched = WatchedBrokers()
    watched.look()
    assert watched.lines == []
    watched.second.alive = False
    watched.look()
    watched.look(after=FIRST_PAUSE_S)
    watched.look()
    assert watched.lines == [
        "broker 2 was ended by SIGKILL; the others go on, it is restarted in 0.5 s",
        "broker 2 serves again",
    ]
    assert (watched.first.launches, watched.second.launches) == (0, 1)


def test_dead_broker_without_restart_is_reported_once():
    watched = WatchedBrokers(restart=False)
    watched.first.alive = False
    for _ in range(5):
        watched.look(after=100)
    assert watched.lines == ["broker 1 was ended by SIGKILL; it is not restarted, the others go on"]
    assert watched.first.launches == 0


def test_restart_pauses_grow():
    watched = WatchedBrokers()
    watched.first.launch = lambda: setattr(watched.first, "launches", watched.first.launches + 1)
    watched.first.alive = False
    for _ in range(3600):
        watched.look(after=1)
    assert watched.first.launches <= 7 + 3600 / LONGEST_PAUSE_S
    assert watched.first.launches >= 3600 / (LONGEST_PAUSE_S + 3)
    assert "exited with status 1 before it was ready: no space" in watched.lines[-1]


def test_broker_that_ran_long_is_restarted_after_the_first_pause():
    watched = WatchedBrokers()
    for _ in range(5):
        watched.first.alive = False
        watched.look()
        watched.look(after=FIRST_PAUSE_S)
        watched.look()
        watched.look(after=SETTLED_S)
    assert watched.lines.count("broker 1 serves again") == 5


def test_broker_that_never_becomes_ready_is_killed():
    watched = WatchedBrokers()
    watched.first.alive = False
    watched.first.ready = False
    watched.look()
    watched.look(after=1)
    watched.look(after=59)
    assert watched.first.alive
    watched.look(after=1)
    assert not watched.first.alive
    assert "broker 1 was not ready in 60 s" in watched.lines[-1]


@pytest.mark.parametrize("error", [ZkbrokerError("no Java"), OSError("no memory")])
def test_failed_launch_is_reported(error):
    watched = WatchedBrokers()

    def launch():
        raise error

    watched.first.launch = launch
    watched.first.alive = False
    watched.look()
    watched.look(after=1)
    assert f"broker 1 cannot be started: {error}" in watched.lines[-1]
