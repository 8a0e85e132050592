"""Connections to brokers, one for each broker and lane, opened when first asked for.

Invariant: a connection handed out was open a moment ago and leads to where its broker is known to
be; a broken one, or one to a place its broker moved away from, is replaced. Nothing is locked while
connecting: who comes second waits for the first one's attempt.
"""

from collections.abc import Callable

from zkbroker.client.view import BrokerAddress, BrokerUnavailable
from zkbroker.errors import NetworkError, RequestTimedOut
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.runtime import Event, Runtime

Key = tuple[int, str]


class Connections:
    """The open connections of a cluster.

    Args:
        runtime: of the cluster.
        dial: opens one to a host and port; raises `NetworkError`.
        attempt_timeout_s: how long to wait for another task's attempt.
    """

    def __init__(
        self,
        runtime: Runtime,
        dial: Callable[[str, int], BrokerConnection],
        attempt_timeout_s: float,
    ) -> None:
        self._runtime = runtime
        self.dial = dial
        self._attempt_timeout_s = attempt_timeout_s
        self._lock = runtime.lock()
        self._open: dict[Key, tuple[BrokerAddress, BrokerConnection]] = {}
        self._attempts: dict[Key, Event] = {}
        self._closed = False

    def get(self, address: BrokerAddress, lane: str) -> BrokerConnection:
        """Return the connection to a broker.

        Raises:
            BrokerUnavailable: it cannot be reached.
        """
        key = (address.id, lane)
        while True:
            with self._lock:
                if self._closed:
                    raise BrokerUnavailable("the cluster was closed")
                known = self._open.get(key)
                if known is not None and known[0] == address and not known[1].closed:
                    return known[1]
                running = self._attempts.get(key)
                if running is None:
                    mine = self._attempts[key] = self._runtime.event()
            if running is not None:
                if not running.wait(self._attempt_timeout_s):
                    raise BrokerUnavailable(
                        f"broker {address.id} at {address.host}:{address.port} is not reached yet"
                    )
                continue
            try:
                return self._connect(key, address)
            finally:
                with self._lock:
                    self._attempts.pop(key, None)
                mine.set()

    def _connect(self, key: Key, address: BrokerAddress) -> BrokerConnection:
        try:
            connection = self.dial(address.host, address.port)
        except (NetworkError, RequestTimedOut) as error:
            raise BrokerUnavailable(
                f"broker {address.id} at {address.host}:{address.port} cannot be reached: {error}"
            ) from error
        with self._lock:
            before = self._open.get(key)
            closed = self._closed
            if not closed:
                self._open[key] = (address, connection)
        if before is not None:
            before[1].close()
        if closed:
            connection.close()
            raise BrokerUnavailable("the cluster was closed")
        return connection

    def drop(self, unwanted: Callable[[BrokerAddress], bool]) -> None:
        """Close the connections to addresses that are `unwanted`."""
        with self._lock:
            keys = [key for key, (address, _) in self._open.items() if unwanted(address)]
            dropped = [self._open.pop(key)[1] for key in keys]
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        """Close all; none is opened any more."""
        with self._lock:
            self._closed = True
        self.drop(lambda address: True)
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.set()
