"""Settings of the consumers, in the spellings of 0.7 and of 0.8-0.10.

Invariant: a property file of either generation means here what it meant there. The generations
differ in some defaults, so a file that spells its group `groupid` (0.7) gets the defaults of 0.7.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from zkbroker.config import shared_options as shared
from zkbroker.config.fetching import FetchSettings
from zkbroker.config.import_path import is_import_path
from zkbroker.config.schema import (
    Bool,
    Int,
    Int32,
    Ms,
    Str,
    from_properties,
    keys,
    logger,
    option,
    required,
    validate,
)
from zkbroker.config.security import NO_SECURITY, ClientSecurity, take_security
from zkbroker.config.shared_options import READ_COMMITTED, SMALLEST
from zkbroker.errors import ConfigError

_DEFAULTS_OF_0_7 = {
    "autooffset.reset": SMALLEST,
    "autocommit.interval.ms": "10000",
    "queuedchunks.max": "10",
}


@dataclass(frozen=True, slots=True)
class Strategy(Str):
    """One of the choices, or an import path."""

    def accepts(self, value: Any) -> bool:
        return Str.accepts(self, value) or (isinstance(value, str) and is_import_path(value))

    @property
    def allowed(self) -> str:
        return f"{', '.join(self.choices)}, or an import path (package.module:name)"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """Settings of a consumer that reads partitions, with or without a group."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "backoff.increment.ms": "an idle fetch waits at the broker (fetch.wait.max.ms)",
        "mirror.topics.whitelist": "zkbroker mirror takes it, a consumer does not",
        "mirror.topics.blacklist": "zkbroker mirror takes it, a consumer does not",
        "mirror.consumer.numthreads": "zkbroker mirror takes it, a consumer does not",
        "shallowiterator.enable": "streams always deliver single messages",
        "zookeeper.sync.time.ms": "watches tell of a change; nothing waits for a fixed time",
        "zk.synctime.ms": "watches tell of a change; nothing waits for a fixed time",
        "transactional.id": "it belongs to the producer",
        "kafka.metrics.reporters": "metrics are read from the connector",
        "kafka.metrics.polling.interval.secs": "metrics are read from the connector",
        "kafka.csv.metrics.reporter.enabled": "metrics are read from the connector",
        "kafka.csv.metrics.dir": "metrics are read from the connector",
    }

    # fmt: off
    socket_timeout_ms: int = option("socket.timeout.ms", Ms(1), 30_000,
        "How long to wait for a response, in addition to the wait that the request allows, in ms.")
    socket_receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes socket.buffersize", Int(-1), -1,
        "Receive buffer of each connection; -1 lets the system adapt it, which is faster than any "
        "fixed size (65536 was the default of genuine consumers).")
    fetch_message_max_bytes: int = shared.FETCH_BYTES("fetch.message.max.bytes fetch.size")
    fetch_message_limit_bytes: int = shared.FETCH_LIMIT_BYTES("fetch.message.limit.bytes")
    fetch_response_max_bytes: int = option("fetch.response.max.bytes", Int32(1), 32 * 1024 * 1024,
        "Most bytes of one fetch response, of all its partitions; old brokers ignore it.")
    isolation_level: str = shared.ISOLATION_LEVEL("isolation.level")
    fetch_min_bytes: int = shared.FETCH_MIN_BYTES("fetch.min.bytes")
    fetch_wait_max_ms: int = shared.FETCH_WAIT_MS("fetch.wait.max.ms")
    num_consumer_fetchers: int = option("num.consumer.fetchers", Int(1, 64), 1,
        "Number of fetchers, each with a connection, for each broker.")
    refresh_leader_backoff_ms: int = option("refresh.leader.backoff.ms", Ms(1), 200,
        "Time between two searches for the leader of a partition without one, in ms.")
    queued_max_message_chunks: int = shared.QUEUED_CHUNKS(
        "queued.max.message.chunks queuedchunks.max")
    auto_offset_reset: str = shared.OFFSET_RESET("auto.offset.reset autooffset.reset")
    consumer_timeout_ms: int = shared.CONSUMER_TIMEOUT_MS("consumer.timeout.ms")
    # fmt: on
    security: ClientSecurity = NO_SECURITY
    """How brokers are connected to; see `ClientSecurity`."""

    def __post_init__(self) -> None:
        validate(self)
        if self.fetch_message_limit_bytes < self.fetch_message_max_bytes:
            raise ConfigError(
                f"fetch.message.limit.bytes={self.fetch_message_limit_bytes} is not allowed: "
                f"give at least fetch.message.max.bytes={self.fetch_message_max_bytes}"
            )

    @classmethod
    def without_group(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "FetchConfig":
        """Build the settings from properties of a consumer; those of its group have no effect.

        Args:
            properties: key → text.
            warn: receives each warning; those of the group are one. The module's logger by default.

        Raises:
            ConfigError: a value is not allowed.
        """
        security, given = take_security(properties, warn=warn)
        own = {key: text for key, text in given.items() if key not in _OF_GROUPS}
        # The group itself may be named, so that reading begins at its offsets.
        unused = sorted(given.keys() - own.keys() - {"group.id", "groupid"})
        if unused:
            report = warn if warn is not None else logger.warning
            report(f"without a group these have no effect: {', '.join(unused)}")
        return from_properties(FetchConfig, own, warn=warn, others={"security": security})

    def fetching(self) -> FetchSettings:
        """Return the settings of fetches."""
        return FetchSettings(
            partition_bytes=self.fetch_message_max_bytes,
            limit_bytes=self.fetch_message_limit_bytes,
            response_bytes=self.fetch_response_max_bytes,
            min_bytes=self.fetch_min_bytes,
            max_wait_ms=self.fetch_wait_max_ms,
            timeout_ms=self.socket_timeout_ms,
            read_committed=self.read_committed,
            auto_offset_reset=self.auto_offset_reset,
            leader_backoff_ms=self.refresh_leader_backoff_ms,
            fetchers=self.num_consumer_fetchers,
            queued_chunks=self.queued_max_message_chunks,
            receive_buffer_bytes=self.socket_receive_buffer_bytes,
        )

    @property
    def read_committed(self) -> bool:
        """Whether only committed messages are read."""
        return self.isolation_level == READ_COMMITTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(FetchConfig):
    """Settings of a `ConsumerConnector`."""

    # fmt: off
    group_id: str = shared.group_id("group.id groupid")
    zookeeper_connect: str = required("zookeeper.connect zk.connect", Str(empty=False),
        "ZooKeeper servers as host:port,host:port with an optional /chroot at the end.")
    consumer_id: str = shared.CONSUMER_ID("consumer.id consumerid")
    client_id: str = option("client.id", Str(), "",
        "Sent with every request, for the broker's logs; the group id when empty.")
    zookeeper_session_timeout_ms: int = shared.CONSUMER_SESSION_MS(
        "zookeeper.session.timeout.ms zk.sessiontimeout.ms")
    zookeeper_connection_timeout_ms: int = option(
        "zookeeper.connection.timeout.ms zk.connectiontimeout.ms", Ms(1), 6000,
        "How long the start waits for a connection to ZooKeeper.")
    auto_commit_enable: bool = shared.AUTO_COMMIT("auto.commit.enable autocommit.enable")
    auto_commit_interval_ms: int = shared.AUTO_COMMIT_MS(
        "auto.commit.interval.ms autocommit.interval.ms")
    rebalance_max_retries: int = shared.REBALANCE_RETRIES(
        "rebalance.max.retries rebalance.retries.max")
    rebalance_backoff_ms: int = option("rebalance.backoff.ms", Ms(1), 2000,
        "Longest time between two attempts at a rebalance, in ms; each time is random.")
    rebalance_drain_ms: int = shared.REBALANCE_DRAIN_MS("rebalance.drain.ms")
    partition_assignment_strategy: str = option(
        "partition.assignment.strategy", Strategy(("range", "roundrobin")), "range",
        "How partitions are assigned; all members of a group need the same. The import path "
        "(package.module:name) of a function of your own is allowed too.")
    exclude_internal_topics: bool = shared.EXCLUDE_INTERNAL_TOPICS("exclude.internal.topics")
    offsets_storage: str = option("offsets.storage", Str(("zookeeper", "kafka")), "zookeeper",
        "Where the group's offsets are kept.")
    dual_commit_enabled: bool | None = option("dual.commit.enabled", Bool(), None,
        "Commit to both storages, whichever offsets.storage names, and start at the larger offset; "
        "by default true with offsets.storage=kafka and false with zookeeper.")
    offsets_channel_backoff_ms: int = option("offsets.channel.backoff.ms", Ms(1), 1000,
        "Time between two attempts to reach the group's coordinator, in ms.")
    offsets_channel_socket_timeout_ms: int = option(
        "offsets.channel.socket.timeout.ms", Ms(1), 10_000,
        "How long one read or commit of offsets tries to find and to reach the coordinator, in ms.")
    offsets_commit_max_retries: int = option("offsets.commit.max.retries", Int(0), 5,
        "Retries of a commit at shutdown, offsets.channel.backoff.ms apart.")
    # fmt: on

    def __post_init__(self) -> None:
        FetchConfig.__post_init__(self)
        if "/" in self.group_id or "/" in self.consumer_id:
            raise ConfigError(
                "group.id and consumer.id become names in ZooKeeper: they must not contain '/'"
            )

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ConsumerConfig":
        """Build the settings from properties of either generation.

        Raises:
            ConfigError: a value is not allowed, or the group or ZooKeeper is missing.
        """
        if "groupid" in properties and "group.id" not in properties:
            properties = {**_DEFAULTS_OF_0_7, **properties}
        security, given = take_security(properties, warn=warn)
        return from_properties(cls, given, warn=warn, others={"security": security})

    @property
    def effective_client_id(self) -> str:
        """The client id that requests carry."""
        return self.client_id or self.group_id

    @property
    def commits_to_zookeeper(self) -> bool:
        """Whether offsets are written to ZooKeeper."""
        return self.offsets_storage == "zookeeper" or self.dual_commit

    @property
    def commits_to_brokers(self) -> bool:
        """Whether offsets are written to the group's coordinator."""
        return self.offsets_storage == "kafka" or self.dual_commit

    @property
    def dual_commit(self) -> bool:
        """Whether offsets are written to both storages."""
        if self.dual_commit_enabled is None:
            return self.offsets_storage == "kafka"
        return self.dual_commit_enabled


_OF_GROUPS = keys(ConsumerConfig) - keys(FetchConfig)
