"""Connections of this broker to others, one for each purpose and broker.

Invariant: a broker that registers with another address gets a new connection.
"""

from typing import Any

from zkbroker.broker.dialing import Dialing, Line
from zkbroker.broker.view import ClusterView
from zkbroker.errors import NetworkError
from zkbroker.registry.brokers import BrokerInfo


class BrokerConnections:
    """Sends requests to brokers by their ids.

    Args:
        dialing: makes them.
        view: has the addresses of brokers.
        client_id: prefix, before the purpose, of the client id of every request.
        timeout_ms: for each request.
    """

    def __init__(
        self, dialing: Dialing, view: ClusterView, client_id: str, timeout_ms: int
    ) -> None:
        self._dialing = dialing
        self._view = view
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._open: dict[tuple[str, int], tuple[BrokerInfo, Line]] = {}

    def send(self, purpose: str, broker_id: int, request: Any, version: int) -> Any:
        """Send a request and wait for its answer; requests of one purpose wait for their turn.

        Raises:
            NetworkError: the broker is not registered, or cannot be reached.
            RequestTimedOut, ProtocolError: see `InterBrokerConnection.send`.
        """
        broker = self._view.brokers.get(broker_id)
        if broker is None:
            raise NetworkError(f"broker {broker_id} is not registered")
        known, connection = self._open.get((purpose, broker_id), (None, None))
        if connection is None or known != broker:
            if connection is not None:
                connection.close()
            connection = self._dialing.connection(
                broker, f"{self._client_id}{purpose}", self._timeout_ms
            )
            self._open[purpose, broker_id] = (broker, connection)
        return connection.send(request, version)

    def close(self) -> None:
        """Close the connections; waiting requests fail."""
        for _, connection in self._open.values():
            connection.close()
