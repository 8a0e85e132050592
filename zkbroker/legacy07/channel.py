"""The channel to one 0.7 broker, which never answers a produce.

    one set, sync      0 produce          several sets, or async      3 multiproduce
    acks=1             then 4 offsets: the broker handles requests of a connection in order, and
    closes it without an answer if one fails

With acks=0 a connection that the broker closed is noticed only before the next write: the last
messages written may be lost.

Invariant, as in `BrokerChannel`: an exchange is reported when it is written, or with acks=1 when
the broker has answered the request after it. A set that the broker would silently drop for its size
is refused here.
"""

import logging
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from zkbroker.client import BrokerUnavailable, Cluster
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ErrorCode, NetworkError, ZkbrokerError, protocol_error
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.producer.batch import Batch
from zkbroker.producer.broker_channel import BrokerChannel, Exchange
from zkbroker.producer.errors import MessageTooLarge
from zkbroker.protocol.legacy07 import (
    MultiProduce07,
    Offsets07,
    Produce07,
    Request07,
    encode_request,
)
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.runtime import Runtime
from zkbroker.types import Partition07

if TYPE_CHECKING:
    from zkbroker.legacy07.producer_config import ProducerConfig07

logger = logging.getLogger(__name__)

_BROKER_PICKS = -1
_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)
_MOST_ANSWER_BYTES = 1024
_WRAPPER_HEAD_BYTES = 10


class Channel07(BrokerChannel):
    """Sends exchanges to one 0.7 broker; arguments as of `BrokerChannel`."""

    def __init__(
        self,
        broker_id: int,
        cluster: Cluster,
        runtime: Runtime,
        config: ProducerConfig,
        on_done: Callable[[Exchange], None],
        *,
        settings: "ProducerConfig07",
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
        sets: list[Produce07] = []
        for batch in exchange.batches:
            try:
                sets.append(self._set(batch))
            except ZkbrokerError as error:
                exchange.refused[batch] = error
        if sets:
            self._write(exchange, sets)
        self._report(exchange)

    def _write(self, exchange: Exchange, sets: Sequence[Produce07]) -> None:
        alone = len(sets) == 1 and self._settings.producer_type == "sync"
        requests: list[Request07] = [sets[0] if alone else MultiProduce07(tuple(sets))]
        if self._settings.required_acks:
            # Every broker with a topic has its partition 0.
            requests.append(Offsets07(sets[-1].topic, 0, LATEST_TIME, 1))
        frames = [encode_request(each) for each in requests]
        try:
            connection = self._connected()
            exchange.started_at = time.monotonic()
            exchange.sent = True
            connection.sendall(b"".join(len(each).to_bytes(4, "big") + each for each in frames))
            if self._settings.required_acks:
                answer = FrameReader(connection.recv_into, _MOST_ANSWER_BYTES).next_frame()
                if answer is None:
                    raise FrameError("closed without an answer: messages may not be stored")
        except (OSError, FrameError) as error:
            self._disconnect()
            host, port = self._address
            raise NetworkError(f"broker {self._broker_id} at {host}:{port}: {error}") from error
        self._requests += 1

    def _set(self, batch: Batch) -> Produce07:
        own = self._codec if self._config.compresses(batch.topic) else Codec.NONE
        records, codec = batch.decoded(own, _CODECS)
        values = [value or b"" for _, value, _, _ in records]
        data = b"".join(map(build_message, values))
        largest = max(map(len, values), default=0)
        if codec is not Codec.NONE:
            data = build_wrapper(codec, data)
            largest = len(data) - _WRAPPER_HEAD_BYTES
        if largest > self._settings.max_message_bytes:
            self._refuse_size(batch, largest)
        partition = _BROKER_PICKS
        if self._settings.zookeeper_connect:
            partition = Partition07.from_number(batch.partition).number
        return Produce07(batch.topic, partition, data)

    def _refuse_size(self, batch: Batch, size: int) -> NoReturn:
        limit = self._settings.max_message_bytes
        what = f"a message of {size} bytes to topic {batch.topic} is larger than {limit}"
        if len(batch) == 1:
            raise MessageTooLarge(
                f"{what}: brokers drop it silently; raise max.message.size there and here"
            )
        # The set is split until a message that is too large is alone.
        raise protocol_error(ErrorCode.MESSAGE_TOO_LARGE, what)

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
        """Whether the connection must be replaced before the next write."""
        assert self._socket is not None
        if _closed_by_peer(self._socket):
            logger.warning(
                "connection closed by the broker: the last messages may be lost broker=%d "
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
    """Whether the socket is readable, which means that the broker closed it."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
