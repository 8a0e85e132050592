"""Two ways to handle a lost connection to ZooKeeper: retry a step, or give it up.

Invariants: `patiently` retries a step only after a lost connection or session, for a bounded time;
the step must be safe to repeat. `while_connected` runs its step once; the step must be harmless if
it ends after it was given up.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from zkbroker.zookeeper.errors import ConnectionLost, SessionLost
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

_PAUSE_S = 0.05
_POLL_S = 0.1

T = TypeVar("T")


def patiently(session: ZkSession, step: Callable[[], T], timeout_s: float) -> T:
    """Run a step, and retry it after a lost connection when there is a connection again.

    Args:
        session: the session that the step uses.
        step: reads or writes; must be safe to repeat.
        timeout_s: how long after the first run it may be retried.

    Raises:
        ConnectionLost, SessionLost: the step did not succeed in time.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except (ConnectionLost, SessionLost) as error:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not session.wait_connected(left_s):
                raise
            # The session may not have noticed the loss yet: without a pause this would spin.
            session.runtime.sleep(_PAUSE_S)
            logger.warning("step repeated: the connection to ZooKeeper broke error=%s", error)


def while_connected(session: ZkSession, step: Callable[[], T], patience_s: float) -> T:
    """Run a step in another task, and wait for it only while ZooKeeper is connected.

    Args:
        session: the session that the step depends on.
        step: may wait for a long time.
        patience_s: how long the connection may be lost.

    Raises:
        ConnectionLost: it was lost for longer; the step may still be running.
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
    while not done.wait(_POLL_S):
        if not session.wait_connected(patience_s) and not done.is_set():
            raise ConnectionLost(f"ZooKeeper has not answered for {patience_s:g} s")
    if failures:
        raise failures[0]
    return results[0]
