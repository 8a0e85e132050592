"""A step that is taken again when the connection to ZooKeeper broke under it.

Invariant: only a broken connection or session is waited out, for a bounded time; the step must do
no harm when it is taken twice.
"""

import logging
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from zkbroker.runtime import Runtime
from zkbroker.zookeeper.errors import ConnectionLost, SessionLost

logger = logging.getLogger(__name__)

_PAUSE_S = 0.05

T = TypeVar("T")


class Connectable(Protocol):
    """What is needed of a `ZkSession`."""

    @property
    def runtime(self) -> Runtime:
        """What the session runs on; for pauses."""

    def wait_connected(self, timeout_s: float) -> bool:
        """Wait until there is a connection; false where there is none in time."""


def patiently(session: Connectable, step: Callable[[], T], timeout_s: float) -> T:
    """Take a step, and again when the connection broke, once there is another one.

    Args:
        session: on which the step works.
        step: reads or writes; repeatable.
        timeout_s: how long after its beginning it may be taken again.

    Raises:
        ConnectionLost, SessionLost: no connection lasted in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except (ConnectionLost, SessionLost) as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not session.wait_connected(left_s):
                raise
            # The breach may be noticed here first.
            session.runtime.sleep(_PAUSE_S)
            logger.warning("step repeated: the connection to ZooKeeper broke error=%s", error)
