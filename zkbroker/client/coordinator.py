"""Requests to the coordinator of a group or a transactional id, which is looked up when it moves.

Invariants: any task may send requests; after an answer "not here any more", or none, the next
request looks the coordinator up again. While a coordinator takes long to answer, another look-up
runs: one that hangs is given up as soon as another broker has taken its place.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Collection
from typing import Any

from zkbroker.client.cluster import Cluster
from zkbroker.errors import (
    ClientError,
    ErrorCode,
    NetworkError,
    ProtocolError,
    UnsupportedVersion,
    ZkbrokerError,
    protocol_error,
)
from zkbroker.network.client.connection import BrokerConnection, Pending
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from zkbroker.protocol.messages.membership import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
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
"""Errors after which the coordinator has to be looked up again."""

RETRIED = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors that pass."""

_LOOK_AGAIN_S = 3.0
"""How long an answer may take before a look-up checks whether the coordinator has moved."""
_CONNECT_S = 5.0
"""How long the coordinator may take to accept a connection."""
_CONCURRENT_PAUSE_S = 0.02
"""The first pause while the previous transaction ends, which usually takes that long."""


class CoordinatorConnection:
    """Asks the coordinator of one group or transactional id.

    Args:
        cluster: gives connections.
        key: the group, or the transactional id.
        runtime: for the pauses.
        backoff_ms: time between two tries.
        lane: the lane of its connections, so that no other long poll blocks them.
        key_type: `GROUP_COORDINATOR` or `TRANSACTION_COORDINATOR`.
        attempt_timeout_ms: how long `ask` waits for one answer; all of its time by default.
    """

    def __init__(
        self,
        cluster: Cluster,
        key: str,
        *,
        runtime: Runtime,
        backoff_ms: int,
        lane: str = "group",
        key_type: int = GROUP_COORDINATOR,
        attempt_timeout_ms: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._key = key
        self._key_type = key_type
        self._name = f"{'transactional id' if key_type else 'group'} {key}"
        self._runtime = runtime
        self._backoff_s = backoff_ms / 1000
        self._attempt_s = None if attempt_timeout_ms is None else attempt_timeout_ms / 1000
        self._lane = lane
        self.broker_id: int | None = None
        """Broker id of the known coordinator; None where it has to be looked up."""

    def send(
        self, request: Any, lane: str | None = None, *, timeout_s: float | None = None
    ) -> Pending:
        """Send a request to the coordinator once.

        Args:
            request: the message.
            lane: the connection to use; the usual one by default.
            timeout_s: how long to look the coordinator up; the cluster's time-out by default.

        Raises:
            ProtocolError: it cannot be found or reached; one of `RETRIED` if that may pass.
        """
        return self._connection(lane or self._lane, timeout_s).send(request)

    def lost(self, error: ProtocolError) -> None:
        """Look the coordinator up again if the error says that it moved."""
        if error.code in MOVED:
            self.broker_id = None

    def ask(
        self,
        request: Any,
        *,
        timeout_s: float,
        error_of: Callable[[Any], int],
        stopping: Callable[[], bool] = lambda: False,
        retried: Collection[int] = RETRIED,
    ) -> Any:
        """Ask until there is an answer that is not a passing error.

        Args:
            request: the message.
            timeout_s: how long to try.
            error_of: finds the error code in the response.
            stopping: asked between tries; true gives up.
            retried: the codes of passing errors.

        Returns:
            The response, which may hold an error that does not pass by itself.

        Raises:
            ProtocolError: the last passing error, when the time is over.
        """
        deadline = time.monotonic() + timeout_s
        concurrent_s = _CONCURRENT_PAUSE_S
        while True:
            pause_s = self._backoff_s
            try:
                left_s = max(0.1, deadline - time.monotonic())
                if self._attempt_s is not None:
                    left_s = min(left_s, self._attempt_s)
                response = self._answer(request, left_s)
                code = error_of(response)
                if code not in retried:
                    return response
                error = protocol_error(code, f"coordinator of {self._name}")
                if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause_s = min(pause_s, concurrent_s)
                    concurrent_s *= 2
            except ProtocolError as failure:
                if failure.code not in RETRIED and not failure.code.retriable:
                    raise
                error = failure
            self.lost(error)
            if stopping() or time.monotonic() + pause_s >= deadline:
                raise error
            logger.debug("coordinator asked again %s error=%s", self._name, error)
            self._runtime.sleep(pause_s)

    def _answer(self, request: Any, limit_s: float) -> Any:
        deadline = time.monotonic() + limit_s
        pending = self.send(request, timeout_s=limit_s)
        asked = self.broker_id
        while (left_s := deadline - time.monotonic()) > _LOOK_AGAIN_S:
            if pending.wait(_LOOK_AGAIN_S):
                break
            if self.moved_from(asked):
                left_s = 0.0
                break
        return pending.result(max(0.0, left_s))

    def moved_from(self, broker_id: int | None) -> bool:
        """Ask any broker whether the coordinator has moved away from `broker_id`."""
        try:
            found = self._cluster.ask_any(self._find_question, timeout_s=_LOOK_AGAIN_S)
        except ZkbrokerError as error:
            logger.debug("coordinator not looked for %s error=%s", self._name, error)
            return False
        moved = not found.error_code and found.node_id != broker_id
        if moved:
            logger.info("coordinator moved %s from=%s to=%d", self._name, broker_id, found.node_id)
        return bool(moved)

    def _connection(self, lane: str, timeout_s: float | None) -> BrokerConnection:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        def left_s() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        try:
            return self._find(lane, left_s)
        except ClientError as error:
            self.broker_id = None
            with contextlib.suppress(ZkbrokerError):  # the next try may find a broker
                self._cluster.refresh(timeout_s=left_s())
            raise NetworkError(f"coordinator of {self._name}: {error}") from error

    def _find(self, lane: str, left_s: Callable[[], float | None]) -> BrokerConnection:
        broker_id = self.broker_id
        if broker_id is None:
            found = self._cluster.ask_any(self._find_question, timeout_s=left_s())
            if found.error_code:
                raise protocol_error(found.error_code, f"coordinator of {self._name}")
            broker_id = found.node_id
            logger.info("coordinator found %s broker=%d", self._name, broker_id)
        left = left_s()
        limit_s = _CONNECT_S if left is None else min(_CONNECT_S, left)
        connection = self._cluster.connection(broker_id, lane, timeout_s=limit_s)
        self.broker_id = broker_id
        return connection

    def _find_question(self, asked: BrokerConnection, wait_s: float) -> FindCoordinatorResponse:
        if (
            self._key_type == TRANSACTION_COORDINATOR
            and asked.best_version(ApiKey.FIND_COORDINATOR) < 1
        ):
            # It is too old to tell a transactional id from a group.
            raise UnsupportedVersion(
                f"the broker at {asked.address} has no transactions: unset transactional.id, or "
                "use brokers of 0.11 or later"
            )
        response: FindCoordinatorResponse = asked.request(
            FindCoordinatorRequest(self._key, self._key_type), timeout_s=wait_s
        )
        return response
