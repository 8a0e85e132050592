"""What the controller says to each broker: one queue and one request in flight for each.

    send --> queue --> request, again until it is answered --> `answered`, in the controller's task
                            |
                            +--> the broker's node is gone: the channel is closed, nothing is said

Invariants: a broker gets its requests in the order in which they were sent, each before the next;
one that is not answered is sent again, for ever, because a request that is skipped leaves a broker
with what was decided before. A queue that grows above its limit is replaced by one request that
says everything anew (`overflowed`), except for StopReplica, whose answers are waited for.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from zkbroker.controller.requests import Answered
from zkbroker.errors import ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

RETRY_S = 0.1
RETRY_MAX_S = 1.0


class Connection(Protocol):
    """A way to one broker; it connects when it is first used, and again after a failure."""

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ZkbrokerError: there was none in time; the next `send` starts anew.
        """

    def close(self) -> None:
        """Close it; a `send` that waits fails soon."""


Connect = Callable[[BrokerInfo], Connection]


@dataclass(frozen=True, slots=True)
class _Queued:
    request: Any
    version: int
    answered: Answered | None


class BrokerChannel:
    """The queue of one broker, and the task that sends from it."""

    def __init__(
        self,
        runtime: Runtime,
        broker: BrokerInfo,
        connect: Connect,
        limit: int,
        post: Callable[[Callable[[], object]], object],
        overflowed: Callable[[int], object],
    ) -> None:
        self._runtime = runtime
        self._broker = broker
        self._connect = connect
        self._limit = limit
        self._post = post
        self._overflowed = overflowed
        self._queue: deque[_Queued] = deque()
        self._changed = runtime.event()
        self._closed = False
        self._connection: Connection | None = None
        self._task = runtime.spawn(self._run, name=f"controller-to-{broker.id}")

    @property
    def queued(self) -> int:
        return len(self._queue)

    def send(self, request: Any, version: int, answered: Answered | None) -> None:
        if self._closed:
            return
        self._queue.append(_Queued(request, version, answered))
        if len(self._queue) > self._limit:
            kept = [each for each in self._queue if each.request.api_key == ApiKey.STOP_REPLICA]
            dropped = len(self._queue) - len(kept)
            if dropped:
                logger.warning(
                    "controller queue replaced broker=%d requests=%d", self._broker.id, dropped
                )
                self._queue = deque(kept)
                self._post(lambda: self._overflowed(self._broker.id))
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        self._changed.set()
        if self._connection is not None:
            self._connection.close()

    def join(self, timeout_s: float) -> bool:
        return self._task.join(timeout_s)

    def _run(self) -> None:
        connection = self._connection = self._connect(self._broker)
        try:
            while True:
                if not self._queue:
                    self._changed.clear()
                    if not self._queue and not self._closed:
                        self._changed.wait()
                if self._closed:
                    return
                item = self._queue.popleft()
                answer = self._insist(connection, item)
                if answer is not None and not self._closed and item.answered is not None:
                    self._report(item.answered, answer)
        finally:
            connection.close()

    def _report(self, answered: Answered, answer: Any) -> None:
        broker = self._broker.id

        def report() -> None:
            # What an earlier registration answered says nothing of the one that there is now.
            if not self._closed:
                answered(broker, answer)

        self._post(report)

    def _insist(self, connection: Connection, item: _Queued) -> Any:
        wait_s, warned = RETRY_S, False
        while not self._closed:
            try:
                return connection.send(item.request, item.version)
            except ZkbrokerError as error:
                if self._closed:
                    break
                level = logging.DEBUG if warned else logging.WARNING
                logger.log(
                    level,
                    "controller request repeated broker=%d api=%s error=%s",
                    self._broker.id,
                    ApiKey(item.request.api_key).name,
                    error,
                )
                warned = True
                self._runtime.sleep(wait_s)
                wait_s = min(RETRY_MAX_S, wait_s * 2)
        return None


class BrokerChannels:
    """A channel to every live broker.

    Args:
        runtime: what their tasks run on.
        connect: makes the connection to a broker.
        limit: requests that may wait for one broker (`controller.message.queue.size`).
        post: has a function called in the controller's task.
        overflowed: called there with a broker that is to be told everything anew.
    """

    def __init__(
        self,
        runtime: Runtime,
        connect: Connect,
        limit: int,
        post: Callable[[Callable[[], object]], object],
        overflowed: Callable[[int], object],
    ) -> None:
        self._runtime = runtime
        self._connect = connect
        self._limit = limit
        self._post = post
        self._overflowed = overflowed
        self._channels: dict[int, BrokerChannel] = {}

    def open(self, broker: BrokerInfo) -> None:
        """Begin to speak to a broker."""
        self.drop(broker.id)
        self._channels[broker.id] = BrokerChannel(
            self._runtime, broker, self._connect, self._limit, self._post, self._overflowed
        )

    def drop(self, broker: int) -> None:
        """Say nothing to a broker any more: it is gone."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            channel.close()

    def send(self, broker: int, request: Any, version: int, answered: Answered | None) -> None:
        """Queue a request; nothing when there is no channel to that broker."""
        channel = self._channels.get(broker)
        if channel is not None:
            channel.send(request, version, answered)

    def queued(self) -> dict[int, int]:
        """How many requests wait, by broker."""
        return {broker: channel.queued for broker, channel in self._channels.items()}

    def close(self, timeout_s: float = 0.0) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.close()
        for channel in channels:
            channel.join(timeout_s)
