"""The controller's connections to brokers over the network, one for each broker.

Invariant: one request at a time; whatever fails closes the connection, and the next request opens
another one. Versions are the sender's own (`zkbroker.protocol.inter_broker`), never negotiated.
"""

from typing import Any

from zkbroker.network.client.exchange import Exchange
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import Runtime


class BrokerLine:
    """A connection to one broker that is opened when it is needed.

    Args:
        runtime: what its tasks run on.
        broker: where it listens.
        client_id: sent with every request.
        timeout_ms: how long to wait for the connection, and for an answer.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.
    """

    def __init__(
        self,
        runtime: Runtime,
        broker: BrokerInfo,
        client_id: str,
        timeout_ms: int,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self._runtime = runtime
        self._broker = broker
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._receive_buffer_bytes = receive_buffer_bytes
        self._connection: Exchange | None = None

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            NetworkError, RequestTimedOut, ProtocolError: there was none.
        """
        try:
            return self._open().request(request, version)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Exchange:
        if self._connection is None or self._connection.closed:
            self._connection = Exchange(
                self._runtime,
                self._broker.host,
                self._broker.port,
                client_id=self._client_id,
                timeout_ms=self._timeout_ms,
                receive_buffer_bytes=self._receive_buffer_bytes,
            )
        return self._connection
