import pytest

from zkbroker.cluster.watchdog import FIRST_PAUSE_S, LONGEST_PAUSE_S, SETTLED_S, Watchdog
from zkbroker.errors import ZkbrokerError


class Process:
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


class World:
    def __init__(self, restart=True):
        self.now = 100.0
        self.lines = []
        self.first, self.second = Process("broker 1"), Process("broker 2")
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
    world = World()
    world.look()
    assert world.lines == []
    world.second.alive = False
    world.look()
    world.look(after=FIRST_PAUSE_S)
    world.look()
    assert world.lines == [
        "broker 2 was ended by SIGKILL; the others go on, it is restarted in 0.5 s",
        "broker 2 serves again",
    ]
    assert (world.first.launches, world.second.launches) == (0, 1)


def test_dead_broker_without_restart_is_reported_once():
    world = World(restart=False)
    world.first.alive = False
    for _ in range(5):
        world.look(after=100)
    assert world.lines == ["broker 1 was ended by SIGKILL; it is not restarted, the others go on"]
    assert world.first.launches == 0


def test_restart_pauses_grow():
    world = World()
    world.first.launch = lambda: setattr(world.first, "launches", world.first.launches + 1)
    world.first.alive = False
    for _ in range(3600):
        world.look(after=1)
    assert world.first.launches <= 7 + 3600 / LONGEST_PAUSE_S
    assert world.first.launches >= 3600 / (LONGEST_PAUSE_S + 3)
    assert "exited with status 1 before it was ready: no space" in world.lines[-1]


def test_broker_that_ran_long_is_restarted_after_the_first_pause():
    world = World()
    for _ in range(5):
        world.first.alive = False
        world.look()
        world.look(after=FIRST_PAUSE_S)
        world.look()
        world.look(after=SETTLED_S)
    assert world.lines.count("broker 1 serves again") == 5


def test_broker_that_never_becomes_ready_is_killed():
    world = World()
    world.first.alive = False
    world.first.ready = False
    world.look()
    world.look(after=1)
    world.look(after=59)
    assert world.first.alive
    world.look(after=1)
    assert not world.first.alive
    assert "broker 1 was not ready in 60 s" in world.lines[-1]


@pytest.mark.parametrize("error", [ZkbrokerError("no Java"), OSError("no memory")])
def test_failed_launch_is_reported(error):
    world = World()

    def launch():
        raise error

    world.first.launch = launch
    world.first.alive = False
    world.look()
    world.look(after=1)
    assert f"broker 1 cannot be started: {error}" in world.lines[-1]
