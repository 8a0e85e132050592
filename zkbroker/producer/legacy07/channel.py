"""The way to one 0.7 broker: connect, encode, write. It never answers.

    one set, sync      0 produce          several sets, or async      3 multiproduce

A connection that the broker closed is noticed before the next write, not by it: what was written
last may be lost all the same, since nobody says so.

Invariant: as of `BrokerChannel`, where an exchange is reported when it is written.
"""

import logging
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from zkbroker.client import BrokerUnavailable, Cluster
from zkbroker.config.legacy07_producer import ProducerConfig07
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import NetworkError
from zkbroker.producer.batch import Batch
from zkbroker.producer.broker_channel import BrokerChannel, Exchange
from zkbroker.protocol.legacy07 import MultiProduce07, Produce07, Request07, encode_request
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07

logger = logging.getLogger(__name__)

_BROKER_PICKS = -1


class Channel07(BrokerChannel):
    """Sends exchanges to one 0.7 broker; arguments as of `BrokerChannel`.

    Args:
        settings: those of 0.7.
    """

    def __init__(
        self,
        broker_id: int,
        cluster: Cluster,
        runtime: Runtime,
        config: ProducerConfig,
        on_done: Callable[[Exchange], None],
        *,
        settings: ProducerConfig07,
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._socket: socket.socket | None = None
        self._address: tuple[str, int] = ("", 0)
        self._requests = 0
        self._connected_at = 0.0
        super().__init__(broker_id, cluster, runtime, config, on_done)

    def _run(self) -> None:
        try:
            super()._run()
        finally:
            self._disconnect()

    def _transmit(self, exchange: Exchange) -> None:
        sets = tuple(self._set(batch) for batch in exchange.batches)
        alone = len(sets) == 1 and self._settings.producer_type == "sync"
        request: Request07 = sets[0] if alone else MultiProduce07(sets)
        frame = encode_request(request)
        try:
            connection = self._connected()
            exchange.started_at = time.monotonic()
            exchange.sent = True
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
        except OSError as error:
            self._disconnect()
            host, port = self._address
            raise NetworkError(f"broker {self._broker_id} at {host}:{port}: {error}") from error
        self._requests += 1
        self._report(exchange)

    def _set(self, batch: Batch) -> Produce07:
        inner = b"".join([build_message(value or b"") for _, value, _, _ in batch.records])
        codec = self._codec if self._config.compresses(batch.topic) else Codec.NONE
        partition = _BROKER_PICKS
        if self._settings.zookeeper_connect:
            partition = Partition07.from_number(batch.partition).number
        data = inner if codec is Codec.NONE else build_wrapper(codec, inner)
        return Produce07(batch.topic, partition, data)

    def _connected(self) -> socket.socket:
        address = self._cluster.brokers().get(self._broker_id)
        if address is None:
            self._disconnect()
            raise BrokerUnavailable(f"broker {self._broker_id} of the 0.7 cluster is down")
        if self._socket is not None and not self._outworn((address.host, address.port)):
            return self._socket
        self._disconnect()
        self._address = address.host, address.port
        timeout_s = self._settings.connect_timeout_ms / 1000
        connection = self._runtime.connect(*self._address, timeout_s)
        connection.settimeout(self._settings.socket_timeout_ms / 1000)
        if self._settings.send_buffer_bytes >= 0:
            connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self._settings.send_buffer_bytes
            )
        self._socket, self._requests, self._connected_at = connection, 0, time.monotonic()
        return connection

    def _outworn(self, address: tuple[str, int]) -> bool:
        """Whether the connection is to be replaced before the next write."""
        assert self._socket is not None
        if _closed_by_peer(self._socket):
            logger.warning(
                "connection closed by the broker: what was sent last may be lost broker=%d "
                "requests=%d",
                self._broker_id,
                self._requests,
            )
            return True
        settings = self._settings
        age_ms = (time.monotonic() - self._connected_at) * 1000
        return (
            address != self._address
            or 0 <= settings.reconnect_interval <= self._requests
            or 0 <= settings.reconnect_time_ms <= age_ms
        )

    def _disconnect(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()


def _closed_by_peer(connection: Any) -> bool:
    """Whether there is something to read: a 0.7 broker sends nothing to a producer but its end."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
