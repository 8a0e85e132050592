"""Steps and a connection to ZooKeeper that breaks: one is taken again, one is given up.

Invariants: `patiently` waits out nothing but a broken connection or session, for a bounded time;
its step must do no harm when it is taken twice. `while_connected` takes its step once; the step
must do no harm when it ends after it was given up.
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


def while_connected(session: Connectable, step: Callable[[], T], patience_s: float) -> T:
    """Take a step that is waited for only while ZooKeeper answers.

    Args:
        session: what the step needs, here or elsewhere.
        step: may wait long for what ZooKeeper has to bring.
        patience_s: how long the connection may be broken.

    Raises:
        ConnectionLost: it is broken for longer; the step may still be under way.
        Exception: what the step raised.
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
