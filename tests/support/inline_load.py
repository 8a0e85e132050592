"""`zkbroker-load` whose mappers run one after the other in its own process, without Java."""

import time
from collections.abc import Callable
from typing import Any

from spark_loader.cli import cli
from spark_loader.load import job
from tests.support.inline_spark import InlineSpark

_TO_BE_KILLED_S = 120


class _Session(InlineSpark):
    """With the master `local[1]` it stands still after its first mapper: time to kill it."""

    def __init__(self, master: str, conf: object) -> None:
        super().__init__()
        self._pause_s = _TO_BE_KILLED_S if master == "local[1]" else 0

    def map(self, function: Callable[[Any], Any]) -> InlineSpark:
        def then_pause(task: Any) -> Any:
            done = function(task)
            time.sleep(self._pause_s)
            return done

        return super().map(then_pause)

    def stop(self) -> None:
        pass


if __name__ == "__main__":
    job.interruptible_session = _Session
    cli(prog_name="zkbroker-load")
