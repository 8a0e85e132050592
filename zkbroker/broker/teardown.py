"""The steps that undo a start, in reverse order.

Invariant: a failed step does not prevent the others.
"""

import logging
from collections.abc import Callable

from zkbroker.errors import ZkbrokerError

logger = logging.getLogger(__name__)


class Teardown:
    """A stack of named steps."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[], object]]] = []

    def add(self, name: str, undo: Callable[[], object]) -> None:
        """Add a step, which runs before all earlier ones."""
        self._steps.append((name, undo))

    def unwind(self) -> None:
        """Run every step, the last one first."""
        while self._steps:
            name, undo = self._steps.pop()
            logger.debug("shutdown step=%s", name)
            try:
                undo()
            except (ZkbrokerError, OSError) as error:
                logger.warning("shutdown step failed step=%s error=%s", name, error)
            except Exception:
                logger.exception("shutdown step failed step=%s", name)
