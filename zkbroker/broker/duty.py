"""Work of the controller, done by whichever broker holds the office.

    elected --> work, again on every change and when its time has come --> resigned

Invariant: one task does the work, and it does not end before `end`: what fails is tried again.
"""

import abc
import logging

import gevent
import gevent.event

from zkbroker.errors import RegistryError

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class ControllerDuty(abc.ABC):
    """A task that works while this broker is the controller; subclasses say what it does."""

    def __init__(self) -> None:
        self._changed = gevent.event.Event()
        self._controller = False
        self._task: gevent.Greenlet | None = None

    @abc.abstractmethod
    def work(self) -> float | None:
        """Do what is to be done.

        Returns:
            After how many seconds to look again without a change; None for not at all.

        Raises:
            RegistryError: it is tried again.
        """

    def begin(self) -> None:
        """Start the task."""
        self._task = gevent.spawn(self._run)

    def end(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.kill()

    def elected(self) -> None:
        """Take the office."""
        self._controller = True
        self._changed.set()

    def resigned(self) -> None:
        """Leave it."""
        self._controller = False

    def poke(self) -> None:
        """Look again: something changed."""
        self._changed.set()

    def _run(self) -> None:
        wait_s: float | None = None
        while True:
            self._changed.wait(wait_s)
            self._changed.clear()
            wait_s = None
            if not self._controller:
                continue
            try:
                wait_s = self.work()
            except Exception as error:
                foreseen = isinstance(error, RegistryError)
                logger.warning(
                    "%s tried again error=%s", type(self).__name__, error, exc_info=not foreseen
                )
                wait_s = RETRY_S
