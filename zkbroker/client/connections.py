"""Connections to brokers, one for each broker and lane, opened at their first use.

Invariant: a connection handed out was open a moment ago and leads to the known address of its
broker; a broken one, or one to an address that its broker has left, is replaced. No lock is held
while connecting: a second caller waits for the attempt of the first one.
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
        dial: opens one to a host and port within so many seconds; raises `NetworkError` or
            `RequestTimedOut`.
        attempt_timeout_s: how long an attempt to connect takes at most.
    """

    def __init__(
        self,
        runtime: Runtime,
        dial: Callable[[str, int, float], BrokerConnection],
        attempt_timeout_s: float,
    ) -> None:
        self._runtime = runtime
        self._dial = dial
        self._attempt_timeout_s = attempt_timeout_s
        self._lock = runtime.lock()
        self._open: dict[Key, tuple[BrokerAddress, BrokerConnection]] = {}
        self._attempts: dict[Key, Event] = {}
        self._closed = False

    def get(
        self, address: BrokerAddress, lane: str, timeout_s: float | None = None
    ) -> BrokerConnection:
        """Return the connection to a broker.

        Args:
            address: of the broker.
            lane: which of its connections.
            timeout_s: how long to wait, where that is less than an attempt may take.

        Raises:
            BrokerUnavailable: it cannot be reached.
        """
        key = (address.id, lane)
        limit_s = self._attempt_timeout_s
        if timeout_s is not None:
            limit_s = min(limit_s, timeout_s)
        # Shared by the waits for all attempts of others, and by its own.
        deadline_ms = self._runtime.clock_ms() + limit_s * 1000
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
            left_s = max(0.0, (deadline_ms - self._runtime.clock_ms()) / 1000)
            if running is not None:
                if not running.wait(left_s):
                    raise BrokerUnavailable(f"{_name(address)} is not reached yet")
                continue
            try:
                return self._connect(key, address, left_s)
            finally:
                with self._lock:
                    self._attempts.pop(key, None)
                mine.set()

    def _connect(self, key: Key, address: BrokerAddress, limit_s: float) -> BrokerConnection:
        try:
            connection = self._dial(address.host, address.port, limit_s)
        except (NetworkError, RequestTimedOut) as error:
            raise BrokerUnavailable(f"{_name(address)} cannot be reached: {error}") from error
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
        """Close all connections, and open no more."""
        with self._lock:
            self._closed = True
        self.drop(lambda address: True)
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.set()


def _name(address: BrokerAddress) -> str:
    # A broker that was given as an address has no id yet.
    number = f" {address.id}" if address.id >= 0 else ""
    return f"broker{number} at {address.host}:{address.port}"
