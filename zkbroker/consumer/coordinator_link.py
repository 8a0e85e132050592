"""The way to a group's coordinator: found, asked, and found again when it moved.

Invariant: any task may ask; an answer that says "not here any more", or none, makes the next
question look for the coordinator anew.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    ProtocolError,
    RequestTimedOut,
    ZkbrokerError,
    protocol_error,
)
from zkbroker.network import BrokerConnection, Pending
from zkbroker.protocol.messages import FindCoordinatorRequest
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Errors after which the coordinator has to be looked for."""

RETRIED = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors that pass."""


class GroupCluster(Protocol):
    """What is needed of `zkbroker.discovery.Cluster`."""

    def any_connection(self, lane: str = "") -> BrokerConnection:
        """Return a connection to some broker that can be reached."""

    def connection(self, broker_id: int, lane: str = "") -> BrokerConnection:
        """Return a connection to a broker."""

    def refresh(self, topics: list[str] | None = None) -> None:
        """Learn anew which brokers there are."""


class CoordinatorLink:
    """Asks the coordinator of one group.

    Args:
        cluster: gives connections.
        group_id: the group.
        runtime: for the pauses.
        backoff_ms: time between two tries.
        lane: a name for its connections, so that nobody else's long poll blocks them.
    """

    def __init__(
        self,
        cluster: GroupCluster,
        group_id: str,
        *,
        runtime: Runtime,
        backoff_ms: int,
        lane: str = "group",
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._runtime = runtime
        self._backoff_s = backoff_ms / 1000
        self._lane = lane
        self._broker_id: int | None = None

    def send(self, request: Any, lane: str | None = None) -> Pending:
        """Send a request to the coordinator once.

        Args:
            request: the message.
            lane: the connection to use; the usual one by default.

        Raises:
            ProtocolError: it is not to be found or reached; one of `RETRIED` if that may pass.
        """
        return self._connection(lane or self._lane).send(request)

    def lost(self, error: ProtocolError) -> None:
        """Look for the coordinator anew if the error says that it moved."""
        if error.code in MOVED:
            self._broker_id = None

    def ask(
        self,
        request: Any,
        *,
        timeout_s: float,
        error_of: Callable[[Any], int],
        stopping: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Ask until there is an answer that is not a passing error.

        Args:
            request: the message.
            timeout_s: how long to try.
            error_of: finds the error code in the response.
            stopping: asked between tries; true gives up.

        Returns:
            The response, which may hold an error that does not pass by itself.

        Raises:
            ProtocolError: the last passing error, when the time was over.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                left_s = max(0.1, deadline - time.monotonic())
                response = self.send(request).result(left_s)
                code = error_of(response)
                if code not in RETRIED:
                    return response
                error = protocol_error(code, f"coordinator of group {self._group_id}")
            except ProtocolError as failure:
                if failure.code not in RETRIED and not failure.code.retriable:
                    raise
                error = failure
            self.lost(error)
            if stopping() or time.monotonic() + self._backoff_s >= deadline:
                raise error
            logger.debug("coordinator sought again group=%s error=%s", self._group_id, error)
            self._runtime.sleep(self._backoff_s)

    def _connection(self, lane: str) -> BrokerConnection:
        try:
            return self._find(lane)
        except ClientError as error:
            self._broker_id = None
            with contextlib.suppress(
                ZkbrokerError
            ):  # no broker answers: the next try may be luckier
                self._cluster.refresh()
            raise NetworkError(f"coordinator of group {self._group_id}: {error}") from error

    def _find(self, lane: str) -> BrokerConnection:
        broker_id = self._broker_id
        if broker_id is None:
            asked = self._cluster.any_connection()
            try:
                found = asked.request(FindCoordinatorRequest(key=self._group_id))
            except RequestTimedOut:
                asked.close()
                raise
            if found.error_code:
                raise protocol_error(found.error_code, f"coordinator of group {self._group_id}")
            broker_id = found.node_id
            logger.info("coordinator found group=%s broker=%d", self._group_id, broker_id)
        connection = self._cluster.connection(broker_id, lane)
        self._broker_id = broker_id
        return connection
