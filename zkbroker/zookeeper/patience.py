"""Steps over a connection to ZooKeeper that may break: repeated, or given up.

Invariants: `patiently` repeats its step only after a broken connection or session, for a bounded
time; the step must be repeatable. `while_connected` runs its step once; the step must do no harm
when it ends after it was given up.
"""

import logging
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from zkbroker.runtime import Runtime
from zkbroker.zookeeper.errors import ConnectionLost, SessionLost

logger = logging.getLogger(__name__)

_PAUSE_S = 0.05
_LOOK_S = 0.1

T = TypeVar("T")


class Connectable(Protocol):
    """The part of `ZkSession` that is needed here."""

    @property
    def runtime(self) -> Runtime:
        """The runtime of the session; for pauses."""

    def wait_connected(self, timeout_s: float) -> bool:
        """Wait for a connection; False when there is none in time."""


def patiently(session: Connectable, step: Callable[[], T], timeout_s: float) -> T:
    """Run a step; after a broken connection repeat it once there is another one.

    Args:
        session: that the step uses.
        step: reads or writes; repeatable.
        timeout_s: how long after the start the step may be repeated.

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
            # The session may not have noticed the break yet.
            session.runtime.sleep(_PAUSE_S)
            logger.warning("step repeated: the connection to ZooKeeper broke error=%s", error)


def while_connected(session: Connectable, step: Callable[[], T], patience_s: float) -> T:
    """Run a step, and wait for it only while ZooKeeper answers.

    Args:
        session: that the step depends on, here or elsewhere.
        step: may wait long for changes in ZooKeeper.
        patience_s: how long the connection may be broken.

    Raises:
        ConnectionLost: it was broken for longer; the step may still be under way.
        Exception: any error of the step.
    """
    done = session.runtime.event()
    results: list[T] = []
    failures: list[Exception] = []

    def take() -> None:
        try:
            results.append(step())
        except Exception as error:  # noqa: BLE001 - raised by the caller
            failures.append(error)
        finally:
            done.set()

    session.runtime.spawn(take, name="while-connected")
    while not done.wait(_LOOK_S):
        if not session.wait_connected(patience_s) and not done.is_set():
            raise ConnectionLost(f"ZooKeeper has not answered for {patience_s:g} s")
    if failures:
        raise failures[0]
    return results[0]
