"""Looks after the processes of a cluster: says which one died and how, and starts it again.

    serving --dies--> dead --after a pause--> starting --serves--> serving
                       ^                          |
                       +---- dies, or too slow ---+        the pause doubles, up to a minute

Invariant: one that dies changes nothing for the others, and nothing here waits: `look` is called
again and again, and returns at once. A process that died soon after its start waits longer each
time, so that one that cannot live is not started in a tight loop.
"""

import time
from collections.abc import Callable, Iterable
from typing import Protocol

from zkbroker.errors import ZkbrokerError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
SETTLED_S = 60.0
"""Who served this long dies for a new reason: its next pause is a short one."""
START_TIMEOUT_S = 60.0


class WatchedProcess(Protocol):
    """A process to look after."""

    @property
    def name(self) -> str: ...
    @property
    def alive(self) -> bool: ...
    def ending(self) -> str: ...
    def launch(self) -> None: ...
    def poll_ready(self) -> bool: ...
    def kill(self) -> None: ...


class _Watched:
    """What is known of one process."""

    def __init__(self, member: WatchedProcess, now: float) -> None:
        self.member = member
        self.dead = False
        self.starting_since: float | None = None
        self.serving_since = now
        self.start_at = 0.0
        self.pause_s = FIRST_PAUSE_S


class Watchdog:
    """Looks after processes that serve now.

    Args:
        members: the processes.
        restart: whether to start again what died.
        report: receives a line about each death and each return.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        members: Iterable[WatchedProcess],
        *,
        restart: bool,
        report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._restart = restart
        self._report = report
        self._watched = [_Watched(member, clock()) for member in members]

    def look(self) -> None:
        """Look at every process once, and do what is due."""
        now = self._clock()
        for watched in self._watched:
            if watched.dead:
                if self._restart and now >= watched.start_at:
                    self._launch(watched, now)
            elif watched.starting_since is not None:
                self._see_whether_ready(watched, watched.starting_since, now)
            elif not watched.member.alive:
                if now - watched.serving_since >= SETTLED_S:
                    watched.pause_s = FIRST_PAUSE_S
                self._died(watched, f"{watched.member.name} {watched.member.ending()}", now)

    def _launch(self, watched: _Watched, now: float) -> None:
        watched.dead = False
        watched.starting_since = now
        try:
            watched.member.launch()
        except (ZkbrokerError, OSError) as error:
            self._died(watched, f"{watched.member.name} cannot be started: {error}", now)

    def _see_whether_ready(self, watched: _Watched, since: float, now: float) -> None:
        try:
            ready = watched.member.poll_ready()
        except ZkbrokerError as error:
            self._died(watched, str(error), now)
            return
        if ready:
            watched.starting_since = None
            watched.serving_since = now
            self._report(f"{watched.member.name} serves again")
        elif now - since >= START_TIMEOUT_S:
            watched.member.kill()
            self._died(
                watched, f"{watched.member.name} was not ready in {START_TIMEOUT_S:g} s", now
            )

    def _died(self, watched: _Watched, what: str, now: float) -> None:
        watched.dead = True
        watched.starting_since = None
        if not self._restart:
            self._report(f"{what}; it stays dead, the others go on")
            return
        watched.start_at = now + watched.pause_s
        self._report(f"{what}; the others go on, it is started again in {watched.pause_s:g} s")
        watched.pause_s = min(LONGEST_PAUSE_S, 2 * watched.pause_s)
