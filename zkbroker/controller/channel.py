"""The controller's requests to each broker: one queue and one request in flight for each.

    send --> queue --> request, repeated until it is answered --> `answered`, in the controller's
                            |                                     task
                            +--> the broker's node is gone: the channel is closed

Invariants: a broker gets its requests one at a time, in the order in which they were sent. A
request without an answer is repeated without limit, because a broker that misses a request stays at
an earlier decision. A queue above its limit is emptied, and the broker gets all state again
(`overflowed`); StopReplica requests stay, because their answers are awaited.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from zkbroker.controller.answers import Answered
from zkbroker.errors import ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)

RETRY_S = 0.1
RETRY_MAX_S = 1.0


class Connection(Protocol):
    """A connection to one broker; it connects at the first `send`, and again after a failure."""

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ZkbrokerError: no answer came in time; the next `send` connects again.
        """

    def close(self) -> None:
        """Close it; a waiting `send` fails soon."""


Connect = Callable[[BrokerInfo], Connection]


@dataclass(frozen=True, slots=True)
class _Queued:
    request: Any
    version: int
    answered: Answered | None


class ControllerChannel:
    """The queue of one broker, and its task; for the arguments see `BrokerChannels`."""

    def __init__(
        self,
        runtime: Runtime,
        connect: Connect,
        limit: int,
        post: Callable[[Callable[[], object]], object],
        overflowed: Callable[[int], object],
        broker: BrokerInfo,
    ) -> None:
        self._broker = broker
        self._limit = limit
        self._post = post
        self._overflowed = overflowed
        self._queue: deque[_Queued] = deque()
        self._sending: _Queued | None = None
        self._connection = connect(broker)
        self._loop = OwnerLoop(
            runtime,
            self._send_queued,
            name=f"controller-to-{broker.id}",
            logger=logger,
            retry_s=RETRY_S,
            retry_max_s=RETRY_MAX_S,
            foreseen=(ZkbrokerError,),
        )
        self._loop.start()

    @property
    def queued(self) -> int:
        return len(self._queue)

    def send(self, request: Any, version: int, answered: Answered | None) -> None:
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
        self._loop.set()

    def close(self) -> None:
        """End without waiting: a request in flight fails."""
        self._loop.end()
        self._queue.clear()
        self._connection.close()

    def join(self, timeout_s: float) -> bool:
        return self._loop.close(timeout_s)

    def _send_queued(self) -> None:
        # A request stays in `_sending` until it is answered; the loop repeats a failed step.
        while not self._loop.closed and (self._sending or self._queue):
            item = self._sending = self._sending or self._queue.popleft()
            answer = self._connection.send(item.request, item.version)
            self._sending = None
            if item.answered is not None:
                self._report(item.answered, answer)

    def _report(self, answered: Answered, answer: Any) -> None:
        def report() -> None:
            # The answer of an earlier registration says nothing about the present one.
            if not self._loop.closed:
                answered(self._broker.id, answer)

        self._post(report)


class BrokerChannels:
    """A channel to every live broker.

    Args:
        runtime: runs their tasks.
        connect: makes the connection to a broker.
        limit: requests that may wait for one broker (`controller.message.queue.size`).
        post: calls a function in the controller's task.
        overflowed: called in that task with a broker that needs all state again.
    """

    def __init__(
        self,
        runtime: Runtime,
        connect: Connect,
        limit: int,
        post: Callable[[Callable[[], object]], object],
        overflowed: Callable[[int], object],
    ) -> None:
        self._channel_to = partial(ControllerChannel, runtime, connect, limit, post, overflowed)
        self._channels: dict[int, ControllerChannel] = {}

    def open(self, broker: BrokerInfo) -> None:
        """Open the channel to a broker; replaces an earlier one."""
        self.drop(broker.id)
        self._channels[broker.id] = self._channel_to(broker)

    def drop(self, broker: int) -> None:
        """Close the channel to a broker that is gone."""
        channel = self._channels.pop(broker, None)
        if channel is not None:
            channel.close()

    def send(self, broker: int, request: Any, version: int, answered: Answered | None) -> None:
        """Queue a request; does nothing if there is no channel to the broker."""
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
