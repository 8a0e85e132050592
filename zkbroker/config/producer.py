"""Configuration of a producer, in the spellings of the 0.7, 0.8 and 0.9+ producers.

Three names changed their meaning or default between generations:

- `batch.size` counts messages in 0.7 and bytes in the clients that have `bootstrap.servers`; it is
  read as bytes only beside `bootstrap.servers`.
- acknowledgements default to 1, not to 0 as in 0.8, with which a lost message goes unnoticed.
- a full queue makes `send` wait by default (0.8, -1), not fail at once (0.7, 0).
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from zkbroker.codecs import CODEC_NAMES
from zkbroker.config import schema
from zkbroker.config import shared_options as shared
from zkbroker.config.schema import Bool, Int, Int32, Str, StrList, option
from zkbroker.config.security import NO_SECURITY, ClientSecurity, take_security
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

# As old producers named them: by numbers in 0.7.
_OLD_CODECS = {"uncompressed": "none"} | {str(n): codec for n, codec in enumerate(CODEC_NAMES)}
_ADDRESS = re.compile(r"^(?:\w+://)?(?:\[[^\]]+\]|[^:\[\]]+):(\d{1,5})$")
_LEGACY_ADDRESS = re.compile(r"^(-?\d+):([^:]+:\d{1,5}(?::\d+)?)$")
_FOREVER = 2**31 - 1
_BATCH_MESSAGES = 200


class _Acks(Int):
    """-1, 0 or 1, or `all`."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-1, 1)

    def parse(self, text: str) -> int:
        return -1 if text.strip().lower() == "all" else super().parse(text)

    @property
    def allowed(self) -> str:
        return "0, 1, -1 or all"


class _Addresses(StrList):
    """`host:port` pairs; the `id:host:port` of 0.7's broker.list loses its id."""

    __slots__ = ()

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(_strip_id(part) for part in super().parse(text))

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) and all(map(_is_address, value))

    @property
    def allowed(self) -> str:
        return "host:port pairs separated by commas"


def _is_address(text: str) -> bool:
    found = _ADDRESS.match(text)
    return found is not None and 0 < int(found.group(1)) < 65_536


def _strip_id(text: str) -> str:
    legacy = _LEGACY_ADDRESS.match(text)
    # 0.7 also allowed id:host:port:partitions; the number of partitions comes from the broker.
    return ":".join(legacy.group(2).split(":")[:2]) if legacy else text


_OLD_CONSUMER_SIDE = "it belongs to the consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """How a producer finds brokers, batches, retries and gives up."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        **shared.KEPT_CURRENT,
        "reconnect.interval": "a connection is used until it breaks",
        "reconnect.time.interval.ms": "a connection is used until it breaks",
        "producer.retry.count": "message.send.max.retries is the name",
        "reconnect.backoff.ms": "retry.backoff.ms holds",
        "reconnect.backoff.max.ms": "retry.backoff.ms holds",
        "connections.max.idle.ms": "a connection stays open while the producer does",
        "metadata.fetch.timeout.ms": "request.timeout.ms and the retries hold",
        "block.on.buffer.full": "queue.enqueue.timeout.ms is the name: -1 to wait, 0 to fail",
        "client.dns.lookup": "every address of a name is tried",
        "metric.reporters": "measures are read from the producer",
        "metrics.num.samples": "measures are counted since the start",
        "metrics.recording.level": "measures are always taken",
        "metrics.sample.window.ms": "measures are counted since the start",
        "groupid": _OLD_CONSUMER_SIDE,
        "group.id": _OLD_CONSUMER_SIDE,
    }

    # fmt: off
    zookeeper_connect: str = option("zookeeper.connect zk.connect", Str(), "",
        "ZooKeeper servers as host:port pairs separated by commas, with an optional /chroot at the "
        "end; brokers and topics are then found there and kept current by watches.")
    broker_list: tuple[str, ...] = option(
        "metadata.broker.list broker.list bootstrap.servers", _Addresses(), (),
        "Brokers to ask for the cluster's metadata, as host:port pairs (0.7's id:host:port is "
        "understood); an alternative to zookeeper.connect.")
    broker_address: tuple[str, ...] = option("broker.address", _Addresses(), (),
        "One host:port of a TCP load balancer: everything goes over a single connection to the "
        "broker behind it, and only topics that this broker hosts can be sent to.")
    client_id: str = option("client.id clientid", Str(), "zkbroker-producer",
        "Name sent with each request, for the broker's log.")
    producer_type: str = option("producer.type", Str(choices=("sync", "async")), "sync",
        "sync: send returns when the broker answered. async: send puts the message on a queue and "
        "returns a future.")
    required_acks: int = option("request.required.acks acks", _Acks(), 1,
        "0: the broker does not answer; 1: the leader has stored the message; -1 or all: all "
        "in-sync replicas have. The 0.8 producer's default was 0.")
    request_timeout_ms: int = option(
        "request.timeout.ms socket.timeout.ms timeout.ms", Int32(1), 10_000,
        "How long to wait for the answer to a request, in ms.")
    connect_timeout_ms: int = shared.CONNECT_TIMEOUT_MS("connect.timeout.ms")
    zookeeper_session_timeout_ms: int = shared.PRODUCER_SESSION_MS(
        "zookeeper.session.timeout.ms zk.sessiontimeout.ms")
    zookeeper_connect_timeout_ms: int = shared.PRODUCER_ZOOKEEPER_MS(
        "zookeeper.connection.timeout.ms zk.connectiontimeout.ms")
    linger_ms: int = shared.LINGER_MS("queue.buffering.max.ms queue.time linger.ms")
    queue_max_messages: int = option("queue.buffering.max.messages queue.size", Int32(1), 10_000,
        "Most messages that may be unresolved (queued or in flight).")
    queue_max_bytes: int = option(
        "queue.buffering.max.bytes buffer.memory", Int(1), 64 * 1024 * 1024,
        "Most bytes of keys and values that may be unresolved (queued or in flight).")
    enqueue_timeout_ms: int = shared.ENQUEUE_TIMEOUT_MS(
        "queue.enqueue.timeout.ms queue.enqueueTimeout.ms max.block.ms")
    batch_messages: int | None = option("batch.num.messages batch.size", Int32(1), None,
        "In async mode a batch is sent once it holds this many messages, and it holds no more. "
        "Unset: it is sent with 200, and may hold more, up to batch.max.bytes, where messages "
        "arrive faster than they are sent.")
    batch_max_bytes: int = option("batch.max.bytes", Int32(1), 900_000,
        "Most bytes of one batch before compression; keep it below the brokers' message.max.bytes. "
        "A larger single message goes in a batch of its own.")
    max_request_bytes: int = option("max.request.size max.message.size", Int32(1), 8 * 1024 * 1024,
        "Most bytes of one message before compression (a larger one fails at once), and about the "
        "most of one request.")
    compression_codec: str = option(
        "compression.codec compression.type", Str(CODEC_NAMES, spellings=_OLD_CODECS), "none",
        "Codec of the batches.")
    compressed_topics: tuple[str, ...] = shared.COMPRESSED_TOPICS("compressed.topics")
    compression_level: int = option("compression.level", Int(-1, 22), -1,
        "Level of the codec; -1 is the codec's own default.")
    message_format: str = option("message.format", Str(choices=("auto", "0", "1", "2")), "auto",
        "Message format (magic) to write; auto takes the newest that the broker understands.")
    max_retries: int = option("message.send.max.retries num.retries retries", Int32(-1), -1,
        "How often a batch is sent again after a failure that may pass. -1: 3 times, not counting "
        "those while its partition has no leader (for request.timeout.ms at most); with "
        "enable.idempotence as often as delivery.timeout.ms allows.")
    retry_backoff_ms: int = option("retry.backoff.ms", Int32(0), 100,
        "Pause before each retry, in which the metadata is refreshed, in ms.")
    delivery_timeout_ms: int = option("delivery.timeout.ms", Int32(1), 120_000,
        "A message that is not acknowledged this long after send fails, in ms.")
    close_timeout_ms: int = option("close.timeout.ms", Int32(0), 30_000,
        "How long close without a time-out waits for queued messages, and the interpreter's exit "
        "waits for producers that were not closed, in ms.")
    max_in_flight: int = option("max.in.flight.requests.per.connection", Int(1, 1_000), 5,
        "Most unanswered requests to one broker. Order within a partition is kept in any case.")
    idempotence: bool = option("enable.idempotence", Bool(), False,
        "Whether batches are numbered, so that a retry is never stored twice; needs acks other "
        "than 0 and brokers that speak message format 2.")
    transactional_id: str = option("transactional.id", Str(), "",
        "Name under which this program sends in transactions, the same after each restart. A "
        "producer that starts under it ends the open transaction of its predecessor and fences it. "
        "Implies enable.idempotence=true and acks=all.")
    transaction_timeout_ms: int = option("transaction.timeout.ms", Int32(1), 60_000,
        "Time in ms after which the coordinator aborts an open transaction and fences its "
        "producer; brokers allow transaction.max.timeout.ms at most.")
    metadata_max_age_ms: int = option(
        "topic.metadata.refresh.interval.ms metadata.max.age.ms", Int32(-1), 600_000,
        "Age at which metadata is refreshed, in ms; -1 refreshes it only after failures.")
    send_buffer_bytes: int = shared.SEND_BUFFER_BYTES("send.buffer.bytes buffer.size")
    receive_buffer_bytes: int = option("receive.buffer.bytes", Int32(-1), -1,
        "Receive buffer of the sockets, in bytes; -1 leaves the system's.")
    encoder: str = option("serializer.class value.serializer", Str(empty=False), "DefaultEncoder",
        "Encoder of values: a built-in name, the name of a known Java class, an import path "
        "(package.module:Name) or an entry point of zkbroker.encoders.")
    key_encoder: str = option("key.serializer.class key.serializer", Str(), "",
        "Encoder of keys; that of the values when empty.")
    partitioner: str = option("partitioner.class", Str(empty=False), "DefaultPartitioner",
        "Partitioner, named as for serializer.class; entry points are in zkbroker.partitioners.")
    event_handler: str = option("event.handler", Str(), "",
        "Event handler, which takes batches off the queue instead of the default one; its entry "
        "points are in zkbroker.event_handlers.")
    event_handler_properties: str = shared.EVENT_HANDLER_PROPERTIES("event.handler.props")
    callback_handler: str = option("callback.handler", Str(), "",
        "Callback handler, called at each stage of the queue; entry points of "
        "zkbroker.callback_handlers.")
    callback_handler_properties: str = shared.CALLBACK_HANDLER_PROPERTIES("callback.handler.props")
    interceptors: tuple[str, ...] = option("interceptor.classes", StrList(), (),
        "Interceptors, called in this order; entry points of zkbroker.interceptors.")
    # fmt: on
    security: ClientSecurity = NO_SECURITY
    """How brokers are connected to; see `ClientSecurity`."""

    def __post_init__(self) -> None:
        """Check each option and the combinations that cannot work."""
        schema.validate(self)
        sources = [
            name
            for name, value in (
                ("zookeeper.connect", self.zookeeper_connect),
                ("metadata.broker.list", self.broker_list),
                ("broker.address", self.broker_address),
            )
            if value
        ]
        if not sources:
            raise ConfigError(
                "no way to find brokers: set zookeeper.connect, metadata.broker.list or "
                "broker.address"
            )
        if len(sources) > 1:
            raise ConfigError(f"{' and '.join(sources)} are both set: give one way to find brokers")
        if len(self.broker_address) > 1:
            raise ConfigError(
                f"broker.address={','.join(self.broker_address)!r} is not allowed: give the one "
                "address of the load balancer, or list brokers in metadata.broker.list"
            )
        if self.transactional_id:
            if self.required_acks == 0:
                raise ConfigError(
                    f"transactional.id={self.transactional_id} needs request.required.acks=all: "
                    "with 0 the broker does not answer, and what was stored is unknown"
                )
            # The instance is frozen, and a transactional producer allows no other values.
            object.__setattr__(self, "idempotence", True)
            object.__setattr__(self, "required_acks", -1)
        if self.idempotence and self.required_acks == 0:
            raise ConfigError(
                "enable.idempotence=true needs request.required.acks=1 or -1: with 0 the broker "
                "does not answer and nothing can be retried"
            )
        if self.idempotence and self.message_format in ("0", "1"):
            raise ConfigError(
                f"enable.idempotence=true needs message.format=2 or auto, not "
                f"{self.message_format}: the older formats hold no sequence numbers"
            )
        if self.idempotence and self.max_in_flight > 5:
            raise ConfigError(
                f"max.in.flight.requests.per.connection={self.max_in_flight} is not allowed with "
                "enable.idempotence=true: give 5 or fewer, brokers remember five batches"
            )

    @property
    def retries(self) -> int:
        """The number of retries in effect."""
        if self.max_retries >= 0:
            return self.max_retries
        return _FOREVER if self.idempotence else 3

    @property
    def leader_wait_ms(self) -> int:
        """How long failures because of a missing leader do not count as retries, in ms."""
        return self.request_timeout_ms if self.max_retries < 0 else 0

    @property
    def batch_full_messages(self) -> int:
        """How many messages make an async batch leave without lingering."""
        return _BATCH_MESSAGES if self.batch_messages is None else self.batch_messages

    @property
    def batch_limit_messages(self) -> int:
        """How many messages a batch holds at most."""
        if self.batch_messages is None or self.producer_type == "sync":
            return _FOREVER
        return self.batch_messages

    def compresses(self, topic: str) -> bool:
        """Whether batches of the topic are compressed."""
        if self.compression_codec == "none":
            return False
        return not self.compressed_topics or topic in self.compressed_topics

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ProducerConfig":
        """Build from properties in any generation's spelling.

        Args:
            properties: key → text.
            warn: receives each warning; the module's logger by default.

        Raises:
            ConfigError: a value or a combination is not allowed, or asks for what is not
                supported.
        """
        security, given = take_security(properties, warn=warn)
        report = warn if warn is not None else logger.warning
        if "bootstrap.servers" in given and "batch.size" in given:
            given.setdefault("batch.max.bytes", given.pop("batch.size"))
        if "metadata.broker.list" in given or "bootstrap.servers" in given:
            for key in ("zookeeper.connect", "zk.connect"):
                if given.pop(key, None) is not None:
                    report(f"config key={key} has no effect beside a list of brokers")
        config = schema.from_properties(cls, given, warn=warn, others={"security": security})
        if config.transactional_id:
            _refuse_contradictions(config, given)
        return config


def _refuse_contradictions(config: ProducerConfig, given: Mapping[str, str]) -> None:
    """Refuse settings that contradict those implied by transactions."""
    implied = {
        "enable.idempotence": ("true",),
        "request.required.acks": ("-1", "all"),
        "acks": ("-1", "all"),
    }
    for key, allowed in implied.items():
        if key in given and given[key].strip().lower() not in allowed:
            raise ConfigError(
                f"{key}={given[key]} is not allowed with transactional.id="
                f"{config.transactional_id}: leave it out, or set {allowed[-1]}"
            )
