"""Watches the processes of a cluster: reports a death and its cause, and restarts the process.

    serving --dies--> dead --after a pause--> starting --serves--> serving
                       ^                          |
                       +---- dies, or too slow ---+        the pause doubles, up to a minute

Invariant: a death does not affect other processes, and nothing here waits: `look` is called again
    and again, and returns at once. A process that dies soon after its start waits longer each time,
    so it is not restarted in a tight loop.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from zkbroker.errors import ZkbrokerError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
SETTLED_S = 60.0
"""A process that served this long died for a new reason: its next pause is short."""
START_TIMEOUT_S = 60.0


class WatchedProcess(Protocol):
    """A process to watch."""

    @property
    def name(self) -> str: ...
    @property
    def alive(self) -> bool: ...
    def ending(self) -> str: ...
    def launch(self) -> None: ...
    def poll_ready(self) -> bool: ...
    def kill(self) -> None: ...


@dataclass(slots=True)
class _Watched:
    """The state of one process."""

    member: WatchedProcess
    serving_since: float
    starting_since: float | None = None
    dead: bool = False
    start_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S


class Watchdog:
    """Watches processes that serve now.

    Args:
        members: the processes.
        restart: whether to restart processes that die.
        report: receives a line about each death and each restart.
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
        """Check every process once, and act where due."""
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
            self._report(f"{what}; it is not restarted, the others go on")
            return
        watched.start_at = now + watched.pause_s
        self._report(f"{what}; the others go on, it is restarted in {watched.pause_s:g} s")
        watched.pause_s = min(LONGEST_PAUSE_S, 2 * watched.pause_s)
