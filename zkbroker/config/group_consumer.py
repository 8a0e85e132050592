"""Settings of the consumer whose group has a coordinator, in the spellings of 0.9 and later.

Invariant: a property file of a Java consumer of 0.9 to 2.x means here what it meant there; settings
of that client's internals are named in `IGNORED`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from zkbroker.config import shared_options as shared
from zkbroker.config.fetching import LIMIT_BYTES, FetchSettings
from zkbroker.config.schema import Bool, Int32, Ms, Str, StrList, from_properties, option, validate
from zkbroker.config.security import NO_SECURITY, ClientSecurity, take_security
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.errors import ConfigError

_OLDER_RESET = {older: newer for newer, older in shared.NEWER_RESET.items()}
_JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."


@dataclass(frozen=True, slots=True)
class Strategies(StrList):
    """Names of assignors or import paths; the Java client's own class names are understood."""

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(
            part.removeprefix(_JAVA_ASSIGNORS).removesuffix("Assignor").lower()
            if part.startswith(_JAVA_ASSIGNORS)
            else part
            for part in StrList.parse(self, text)
        )

    @property
    def allowed(self) -> str:
        return "names of assignors, or their import paths, separated by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConsumerConfig:
    """Settings of a `GroupConsumer`. Sizes in bytes, times in milliseconds."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "key.deserializer": "give key_decoder to the constructor",
        "value.deserializer": "give value_decoder to the constructor",
        "transactional.id": "it belongs to the producer",
        "check.crcs": "checksums are always verified",
        "send.buffer.bytes": "left to the system",
        "metric.reporters": "there are no metrics of this consumer",
        "interceptor.classes": "there are no interceptors of this consumer",
        "connections.max.idle.ms": "a connection stays open while it is used",
        "reconnect.backoff.ms": "retry.backoff.ms holds",
        "reconnect.backoff.max.ms": "retry.backoff.ms holds",
        "default.api.timeout.ms": "request.timeout.ms holds, or the time-out of the call",
        "client.dns.lookup": "every address of a name is tried",
        "client.rack": "leaders are read from",
        "group.instance.id": "a member that comes back joins as a new one",
        "metrics.num.samples": "measures are counted since the start",
        "metrics.recording.level": "measures are always taken",
        "metrics.sample.window.ms": "measures are counted since the start",
    }

    # fmt: off
    bootstrap_servers: tuple[str, ...] = option("bootstrap.servers", StrList(), (),
        "Brokers to learn the others from, host:port separated by commas.")
    zookeeper_connect: str = option("zookeeper.connect", Str(), "",
        "ZooKeeper to learn the brokers from, in place of bootstrap.servers.")
    group_id: str = option("group.id", Str(), "",
        "Name of the group; needed to subscribe and to commit.")
    client_id: str = option("client.id", Str(), "zkbroker",
        "Sent with every request; member ids begin with it.")
    session_timeout_ms: int = option("session.timeout.ms", Int32(1), 10_000,
        "Time without a heartbeat after which the coordinator considers this member dead, in ms.")
    heartbeat_interval_ms: int = option("heartbeat.interval.ms", Int32(1), 3000,
        "Time between two heartbeats, in ms; less than the session time-out. With a third of it "
        "the loss of one heartbeat does no harm.")
    max_poll_interval_ms: int = option("max.poll.interval.ms", Int32(1), 300_000,
        "Longest time between two polls, in ms; a member that takes longer leaves the group until "
        "its next poll.")
    max_poll_records: int = option("max.poll.records", Int32(1), 500,
        "Most messages that one poll returns.")
    isolation_level: str = shared.ISOLATION_LEVEL("isolation.level")
    fetch_min_bytes: int = shared.FETCH_MIN_BYTES("fetch.min.bytes")
    fetch_max_wait_ms: int = shared.FETCH_WAIT_MS("fetch.max.wait.ms", 500)
    fetch_max_bytes: int = option("fetch.max.bytes", Int32(1), 50 * 1024 * 1024,
        "Most bytes of one fetch response, of all its partitions.")
    max_partition_fetch_bytes: int = option("max.partition.fetch.bytes", Int32(1), 1024 * 1024,
        "Bytes of one partition in one fetch; a larger message is still returned.")
    enable_auto_commit: bool = option("enable.auto.commit", Bool(), True,
        "Whether the offsets of messages from earlier polls are committed regularly.")
    auto_commit_interval_ms: int = option("auto.commit.interval.ms", Int32(1), 5000,
        "Time between two automatic commits.")
    auto_offset_reset: str = option(
        "auto.offset.reset", Str(tuple(shared.NEWER_RESET), spellings=_OLDER_RESET), "latest",
        "Where to start when the group has no offset, or one outside the log.")
    strategies: tuple[str, ...] = option("partition.assignment.strategy", Strategies(1), ("range",),
        "Assignors that this member supports, the preferred one first: range, roundrobin, sticky, "
        "or an import path (package.module:Name) of one of your own.")
    exclude_internal_topics: bool = shared.EXCLUDE_INTERNAL_TOPICS("exclude.internal.topics")
    metadata_max_age_ms: int = option("metadata.max.age.ms", Ms(1), 300_000,
        "Age at which metadata is refreshed, in ms.")
    request_timeout_ms: int = option("request.timeout.ms", Int32(1), 30_000,
        "How long to wait for a response, in addition to the wait that the request allows, in ms.")
    retry_backoff_ms: int = option("retry.backoff.ms", Int32(1), 100,
        "Time between two attempts at a request, in ms.")
    receive_buffer_bytes: int = option("receive.buffer.bytes", Int32(-1), -1,
        "Receive buffer of each connection; -1 leaves it to the system.")
    # fmt: on
    security: ClientSecurity = NO_SECURITY
    """How brokers are connected to; see `ClientSecurity`."""

    def __post_init__(self) -> None:
        validate(self)
        if bool(self.bootstrap_servers) == bool(self.zookeeper_connect):
            raise ConfigError("give either bootstrap.servers or zookeeper.connect")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms} is not allowed: give less "
                f"than session.timeout.ms={self.session_timeout_ms}, a third of it at best"
            )

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "GroupConsumerConfig":
        """Build the settings from properties.

        Args:
            properties: key to text, as read from a property file.
            warn: receives each warning; the log by default.

        Raises:
            ConfigError: a value is not allowed, or asks for what is not supported.
        """
        security, given = take_security(properties, warn=warn)
        return from_properties(cls, given, warn=warn, others={"security": security})

    def fetching(self, queued_chunks: int) -> FetchSettings:
        """Return the settings of fetches.

        Args:
            queued_chunks: how many fetched chunks may wait.
        """
        return FetchSettings(
            partition_bytes=self.max_partition_fetch_bytes,
            limit_bytes=max(self.max_partition_fetch_bytes, LIMIT_BYTES),
            response_bytes=self.fetch_max_bytes,
            min_bytes=self.fetch_min_bytes,
            max_wait_ms=self.fetch_max_wait_ms,
            timeout_ms=self.request_timeout_ms,
            read_committed=self.isolation_level == READ_COMMITTED,
            auto_offset_reset=shared.NEWER_RESET[self.auto_offset_reset],
            leader_backoff_ms=self.retry_backoff_ms,
            queued_chunks=queued_chunks,
        )
