"""Settings of a producer for a 0.7 cluster, under the names and defaults of 0.7.2, and its parts.

Invariant: each property of the 0.7 producer is an option here, is named in `IGNORED`, or is refused
by name; newer spellings of the same settings are understood too.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from zkbroker.client import Cluster
from zkbroker.client.source import ClusterSource
from zkbroker.config import shared_options as shared
from zkbroker.config.generation import GENERATION, without_generation
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.refused_client_keys import refuse_unsupported
from zkbroker.config.schema import Int, Int32, Str, StrList, from_properties, option, validate
from zkbroker.config.security import ClientSecurity
from zkbroker.config.zookeeper_security import (
    UNPROTECTED,
    ZooKeeperSecurity,
    take_zookeeper_security,
)
from zkbroker.errors import ConfigError
from zkbroker.legacy07.channel import Channel07
from zkbroker.legacy07.cluster import FixedLeaders07
from zkbroker.legacy07.sources import ListedSource07, ProducerSource07
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.producer.partitioners import LegacyHashPartitioner, RandomPartitioner
from zkbroker.runtime import Runtime

_FOREVER = 2**31 - 1
_BROKER = re.compile(r"(\d+):([^:,\s]+):(\d{1,5})", re.ASCII)
_OVERHEAD_BYTES = 40
# Room for the overhead of a codec: the broker silently drops a wrapper above max.message.size.
_BATCH_SHARE = 10
_CODECS = {"0": "none", "1": "gzip", "2": "snappy"}
_OLD_CODECS = {**_CODECS, "uncompressed": "none"}


class Partitioner07(LegacyHashPartitioner):
    """As 0.7's own: by the Java hash code of the key; a random partition without one."""

    def choose(self, topic: str, available: Sequence[int]) -> int:
        return random.choice(available)  # noqa: S311 - spreads load, guards nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig07:
    """Settings of a producer for a 0.7 cluster.

    A 0.7 broker never answers a produce. Without `request.required.acks` a message counts as sent
    once it is written to the connection, and is lost if that then breaks.
    """

    IGNORED: ClassVar[Mapping[str, str]] = shared.KEPT_CURRENT

    # fmt: off
    zookeeper_connect: str = option("zk.connect zookeeper.connect", Str(), "",
        "ZooKeeper servers of the 0.7 cluster, with an optional /chroot; brokers and their "
        "partitions are found there. Either this or broker.list.")
    broker_list: tuple[str, ...] = option("broker.list", StrList(), (),
        "Brokers as id:host:port,id:host:port: each message goes to a random one, which picks the "
        "partition. Either this or zk.connect.")
    host: str = option("host", Str(), "",
        "With port: the one broker to send to, as for 0.7's SyncProducer.")
    port: int = option("port", Int(0, 65_535), 0, "See host.")
    producer_type: str = option("producer.type", Str(choices=("sync", "async")), "sync",
        "sync: send returns when the message is written. async: send puts it on a queue.")
    partitioner: str = option("partitioner.class", Str(), "",
        "Chooses among the partitions of all brokers by the key. Default: the Java hash code of "
        "the key, a random one without a key. Not with broker.list.")
    encoder: str = option("serializer.class", Str(empty=False), "DefaultEncoder",
        "Encoder of the messages.")
    key_encoder: str = option("key.serializer.class", Str(), "",
        "Encoder of keys for a partitioner.class that needs bytes; if empty, that of the messages. "
        "Keys are not stored.")
    compression_codec: str = option(
        "compression.codec", Str(tuple(_CODECS.values()), spellings=_OLD_CODECS), "none",
        "Codec of the sets that are sent: 0 none, 1 gzip, 2 snappy.")
    compressed_topics: tuple[str, ...] = option("compressed.topics", StrList(), (),
        "With producer.type=async: topics to compress; if empty, all.")
    required_acks: int = option("request.required.acks acks", Int(-1, 1), 0,
        "0: a message counts as sent when it is written. 1 or -1: when the broker has answered a "
        "later request, before which it must have handled the message.")
    retries: int = option("num.retries message.send.max.retries", Int32(0), 0,
        "With producer.type=async: retries of a set that could not be written.")
    retry_backoff_ms: int = option("retry.backoff.ms", Int32(0), 100,
        "Wait before each retry, in ms.")
    delivery_timeout_ms: int = option("delivery.timeout.ms", Int32(1), 120_000,
        "A message that is not sent this long after send fails, in ms.")
    send_buffer_bytes: int = shared.SEND_BUFFER_BYTES("buffer.size")
    connect_timeout_ms: int = shared.CONNECT_TIMEOUT_MS("connect.timeout.ms")
    socket_timeout_ms: int = option("socket.timeout.ms", Int32(1), 30_000,
        "How long a write may be blocked before the connection is closed, in ms.")
    reconnect_interval: int = option("reconnect.interval", Int32(-1), 30_000,
        "Requests after which a connection is replaced by another one; -1: never.")
    reconnect_time_ms: int = option("reconnect.time.interval.ms", Int32(-1), 10_000_000,
        "After this time a connection is replaced by another one, in ms; -1: never.")
    max_message_bytes: int = option(
        "max.message.size", Int(1, _FOREVER - _OVERHEAD_BYTES), 1_000_000,
        "Largest message, in bytes; a broker silently drops larger ones.")
    linger_ms: int = shared.LINGER_MS("queue.time queue.buffering.max.ms")
    queue_max_messages: int = option("queue.size queue.buffering.max.messages", Int32(1), 10_000,
        "Most messages that may wait in async mode.")
    enqueue_timeout_ms: int = shared.ENQUEUE_TIMEOUT_MS(
        "queue.enqueueTimeout.ms queue.enqueue.timeout.ms", 0)
    batch_messages: int = option("batch.size batch.num.messages", Int32(1), 200,
        "In async mode a set is sent once it holds this many messages for a partition.")
    event_handler: str = option("event.handler", Str(), "",
        "Event handler, which takes messages off the queue instead of the default one.")
    event_handler_properties: str = shared.EVENT_HANDLER_PROPERTIES("event.handler.props")
    callback_handler: str = option("callback.handler", Str(), "",
        "Callback handler, called at each stage of the queue.")
    callback_handler_properties: str = shared.CALLBACK_HANDLER_PROPERTIES("callback.handler.props")
    zookeeper_session_timeout_ms: int = shared.PRODUCER_SESSION_MS(
        "zk.sessiontimeout.ms zookeeper.session.timeout.ms")
    zookeeper_connect_timeout_ms: int = shared.PRODUCER_ZOOKEEPER_MS(
        "zk.connectiontimeout.ms zookeeper.connection.timeout.ms")
    # fmt: on
    zookeeper: ZooKeeperSecurity = UNPROTECTED
    """Security of connections to ZooKeeper."""

    def __post_init__(self) -> None:
        validate(self)
        given = [
            name
            for name, value in (
                ("zk.connect", self.zookeeper_connect),
                ("broker.list", self.broker_list),
                ("host", self.host),
            )
            if value
        ]
        if len(given) != 1:
            said = " and ".join(given) or "none of them"
            raise ConfigError(f"give one of zk.connect, broker.list and host; given: {said}")
        if not self.zookeeper_connect and self.partitioner:
            raise ConfigError(
                f"partitioner.class={self.partitioner} needs zk.connect: with a list of brokers, "
                "the brokers choose the partition"
            )
        if self.host and not self.port:
            raise ConfigError("host needs port: the broker to send to")
        self.brokers()

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ProducerConfig07":
        """Build the settings from the properties of a 0.7 producer.

        Raises:
            ConfigError: a value or a combination is not allowed.
        """
        given = without_generation(refuse_unsupported(properties))
        zookeeper, given = take_zookeeper_security(given, warn=warn)
        others = {"zookeeper": zookeeper}
        return from_properties(cls, given, warn=warn, also_known=(GENERATION,), others=others)

    @property
    def named_partitioner(self) -> str:
        """The configured partitioner; empty for that of 0.7, which gets unencoded keys."""
        own = self.partitioner.rpartition(".")[2] == "DefaultPartitioner"
        return "" if own else self.partitioner

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return host and port of the listed brokers, by id; empty with ZooKeeper.

        Raises:
            ConfigError: one is not id:host:port.
        """
        if self.host:
            return {0: (self.host, self.port)}
        found: dict[int, tuple[str, int]] = {}
        for text in self.broker_list:
            match = _BROKER.fullmatch(text)
            if match is None or not 0 < int(match[3]) < 65_536:
                raise ConfigError(f"broker.list={text!r} is not allowed: give id:host:port,...")
            found[int(match[1])] = match[2], int(match[3])
        return found

    def producer(self) -> ProducerConfig:
        sync = self.producer_type == "sync"
        return ProducerConfig(
            zookeeper_connect=self.zookeeper_connect,
            broker_list=tuple(f"{host}:{port}" for host, port in self.brokers().values()),
            producer_type=self.producer_type,
            required_acks=self.required_acks,
            delivery_timeout_ms=self.delivery_timeout_ms,
            request_timeout_ms=self.socket_timeout_ms,
            connect_timeout_ms=self.connect_timeout_ms,
            zookeeper_session_timeout_ms=self.zookeeper_session_timeout_ms,
            zookeeper_connect_timeout_ms=self.zookeeper_connect_timeout_ms,
            linger_ms=self.linger_ms,
            queue_max_messages=self.queue_max_messages,
            enqueue_timeout_ms=-1 if sync else self.enqueue_timeout_ms,
            batch_messages=self.batch_messages,
            batch_max_bytes=max(1, self.max_message_bytes - self.max_message_bytes // _BATCH_SHARE),
            max_request_bytes=self.max_message_bytes + _OVERHEAD_BYTES,
            compression_codec=self.compression_codec,
            compressed_topics=() if sync else self.compressed_topics,
            max_retries=0 if sync else self.retries,
            retry_backoff_ms=self.retry_backoff_ms,
            send_buffer_bytes=self.send_buffer_bytes,
            encoder=self.encoder,
            key_encoder=self.key_encoder or ("" if self.named_partitioner else "NullEncoder"),
            event_handler=self.event_handler,
            event_handler_properties=self.event_handler_properties,
            callback_handler=self.callback_handler,
            callback_handler_properties=self.callback_handler_properties,
            security=ClientSecurity(zookeeper=self.zookeeper),
        )

    def make_cluster(self, runtime: Runtime) -> Cluster:
        source: ClusterSource = ListedSource07(self.brokers())
        if self.zookeeper_connect:
            source = ProducerSource07(
                self.zookeeper_connect,
                session_timeout_ms=self.zookeeper_session_timeout_ms,
                connect_timeout_ms=self.zookeeper_connect_timeout_ms,
                security=self.zookeeper,
            )
        return FixedLeaders07(source, runtime=runtime)

    def make_partitioner(self) -> object:
        if not self.zookeeper_connect:
            return RandomPartitioner()
        return self.named_partitioner or Partitioner07()

    def channels(self) -> Callable[..., BrokerChannel]:
        return partial(Channel07, settings=self)
