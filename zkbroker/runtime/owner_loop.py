"""A task that owns some state: it waits for a wake-up, makes a step, and repeats a failed step.

    wait for a wake-up, or for the time that the last step returned
      -> closed? end
      -> wait until the step can be made (`ready`)
      -> step; failed? log it and repeat it after a pause

Invariants: one task makes every step; wake-ups during a step cause one more step. A failed step is
repeated whatever the error, since nothing else would do its work. The same failure is logged as a
WARNING once and at DEBUG from then on, until a step succeeds or fails in another way. After `close`
has returned True, no step is made.
"""

import logging
from collections.abc import Callable

from zkbroker.runtime.base import Runtime, Task

RETRY_S = 0.5
CLOSE_TIMEOUT_S = 10.0


class OwnerLoop:
    """Makes a step in a task of its own at every wake-up.

    Args:
        runtime: runs the task.
        step: does the work. It returns the seconds until the next step without a wake-up; None
            waits for a wake-up.
        name: of the task, and in its log messages.
        logger: receives failures.
        retry_s: pause after a failed step, in seconds.
        retry_max_s: the pause doubles up to this while steps fail; constant when None.
        foreseen: expected errors, which are logged without a traceback.
        ready: waits up to the given seconds and returns whether a step can be made, such as
            `ZkSession.wait_connected`.
        ended: returns whether the loop's subject was closed: then the loop ends without logging.
        on_failure: called with the error of a step, before it is logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        step: Callable[[], float | None],
        *,
        name: str,
        logger: logging.Logger,
        retry_s: float = RETRY_S,
        retry_max_s: float | None = None,
        foreseen: tuple[type[Exception], ...] = (),
        ready: Callable[[float], bool] = lambda timeout_s: True,
        ended: Callable[[], bool] = lambda: False,
        on_failure: Callable[[Exception], object] = lambda error: None,
    ) -> None:
        self._runtime = runtime
        self._step = step
        self._name = name
        self._logger = logger
        self._retry_s = retry_s
        self._retry_max_s = retry_max_s or retry_s
        self._foreseen = foreseen
        self._ready = ready
        self._ended = ended
        self._on_failure = on_failure
        self._woken = runtime.event()
        self.set = self._woken.set
        """Wakes the loop: a step follows soon. The loop may be given to ZooKeeper as a watch."""
        self._closing = runtime.event()
        self._task: Task | None = None
        self._last_failure: str | None = None

    def start(self, first_s: float | None = None) -> None:
        """Start the task; its first step waits for a wake-up, at most `first_s`."""
        self._task = self._runtime.spawn(self._run, first_s, name=self._name)

    def end(self) -> None:
        """Make the task end after its current step, without waiting."""
        self._closing.set()
        self._woken.set()

    def close(self, timeout_s: float | None = CLOSE_TIMEOUT_S) -> bool:
        """End the task after its current step; False when that takes longer than `timeout_s`."""
        self.end()
        return self._task is None or self._task.join(timeout_s)

    @property
    def closed(self) -> bool:
        """Whether the loop, or its subject, was closed."""
        return self._closing.is_set() or self._ended()

    def _run(self, wait_s: float | None = None) -> None:
        retry_s = self._retry_s
        while not self.closed:
            self._woken.wait(wait_s)
            if not self._wait_ready():
                return
            self._woken.clear()
            if self.closed:
                # `close` may have set the event that was just cleared.
                return
            try:
                wait_s = self._step()
                self._last_failure, retry_s = None, self._retry_s
            except Exception as error:  # noqa: BLE001 - logged by `_log`
                if self.closed:
                    return
                self._on_failure(error)
                self._log(error)
                # A wake-up does not shorten the pause: otherwise wake-ups could cause a busy loop.
                self._closing.wait(retry_s)
                wait_s, retry_s = 0.0, min(retry_s * 2, self._retry_max_s)

    def _wait_ready(self) -> bool:
        while not self.closed:
            if self._ready(self._retry_s):
                return True
        return False

    def _log(self, error: Exception) -> None:
        failure = f"{type(error).__name__}: {error}"
        again, self._last_failure = failure == self._last_failure, failure
        self._logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s failed, will repeat until it succeeds error=%s",
            self._name,
            error,
            exc_info=not isinstance(error, self._foreseen),
        )
