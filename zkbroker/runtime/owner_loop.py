"""A task that owns some state: it waits to be poked, works, and tries again what failed.

    wait for a poke, or for the time that the last step asked for
      -> closed? end
      -> wait until what the step needs is there (`ready`)
      -> step; failed? log it and try again after `retry_s`

Invariants: one task makes every step; pokes that come meanwhile make one more step; a step that
fails is repeated, whatever it raised, since nothing else would do its work; the same failure is a
WARNING once and DEBUG from then on, until a step succeeds or fails in another way. After `close`
returned true no step is made any more.
"""

import logging
from collections.abc import Callable

from zkbroker.runtime.base import Runtime, Task

RETRY_S = 0.5
CLOSE_TIMEOUT_S = 10.0


class OwnerLoop:
    """Runs a step in a task of its own, whenever it is poked.

    Args:
        runtime: what the task runs on.
        step: does the work. It returns after how many seconds it is to be done again without a
            poke, None for not at all.
        name: names the task and its lines in the log.
        logger: where failures are told.
        retry_s: pause after a failed step, in seconds.
        foreseen: errors that are logged without a traceback.
        ready: waits up to the given seconds for what the step needs, and returns whether it is
            there, such as `ZkSession.wait_connected`.
        ended: true when what the loop works on was closed: it ends in silence.
        on_failure: called with what a step raised, before it is logged.
    """

    def __init__(
        self,
        runtime: Runtime,
        step: Callable[[], float | None],
        *,
        name: str,
        logger: logging.Logger,
        retry_s: float = RETRY_S,
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
        self._foreseen = foreseen
        self._ready = ready
        self._ended = ended
        self._on_failure = on_failure
        self._poked = runtime.event()
        self._closing = runtime.event()
        self._task: Task | None = None
        self._told: str | None = None
        self._first_s: float | None = None

    def start(self, first_s: float | None = None) -> None:
        """Start the task; its first step waits for a poke, or for `first_s` at most."""
        self._first_s = first_s
        self._task = self._runtime.spawn(self._run, name=self._name)

    def set(self) -> None:
        """Poke: have a step made soon. The loop may be given to ZooKeeper as a watch."""
        self._poked.set()

    def end(self) -> None:
        """Have the task end after the step that runs. Does not wait."""
        self._closing.set()
        self._poked.set()

    def close(self, timeout_s: float | None = CLOSE_TIMEOUT_S) -> bool:
        """End the task, after the step that runs; false when that takes longer than `timeout_s`."""
        self.end()
        return self._task is None or self._task.join(timeout_s)

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or what the loop works on was closed."""
        return self._closing.is_set() or self._ended()

    def _run(self) -> None:
        wait_s = self._first_s
        while not self.closed:
            self._poked.wait(wait_s)
            if not self._wait_ready():
                return
            self._poked.clear()
            if self.closed:
                # `close` may have set what was cleared just now.
                return
            try:
                wait_s = self._step()
                self._told = None
            except Exception as error:  # noqa: BLE001 - told by `_tell`
                if self.closed:
                    return
                self._on_failure(error)
                self._tell(error)
                # Pokes do not shorten this: what fails is not repeated in a circle.
                self._closing.wait(self._retry_s)
                wait_s = 0.0

    def _wait_ready(self) -> bool:
        while not self.closed:
            if self._ready(self._retry_s):
                return True
        return False

    def _tell(self, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        again, self._told = said == self._told, said
        self._logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s failed, repeated until it succeeds error=%s",
            self._name,
            error,
            exc_info=not isinstance(error, self._foreseen),
        )
