"""Settings of a broker, in the spellings of 0.7.2, 0.8.2 and every later ZooKeeper-based Kafka.

Invariant: a genuine `server.properties` of any of those generations works unmodified. Each of its
keys is an option here or of the log (`zkbroker.config.log`), or stands in `IGNORED` or
`IGNORED_PREFIXES` with the reason why it has no effect, which is logged when the key is given. One
exception: an authorizer that would not be obeyed is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from zkbroker.config.ignored_broker_keys import IGNORED, IGNORED_PREFIXES
from zkbroker.config.legacy07 import KEYS as LEGACY07_KEYS
from zkbroker.config.legacy07 import LISTENER, Legacy07Config
from zkbroker.config.levels import LEVEL_SPELLINGS, LEVELS
from zkbroker.config.listeners import (
    PLAINTEXT,
    Endpoint,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
)
from zkbroker.config.log import LOG_KEYS, LogConfig, LogManagerConfig
from zkbroker.config.schema import (
    Bool,
    Int,
    Str,
    StrList,
    StrMap,
    from_properties,
    logger,
    option,
    options,
    validate,
)
from zkbroker.errors import ConfigError

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000
AUTHORIZER = "authorizer.class.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Settings of one broker. Sizes in bytes, times in milliseconds."""

    broker_id: int = option(
        "broker.id",
        "brokerid",
        default=-1,
        kind=Int(-1, _INT32_MAX),
        doc="Number of this broker in its cluster; -1 takes the next free one above "
        "`reserved.broker.max.id`.",
    )
    reserved_broker_max_id: int = option(
        "reserved.broker.max.id",
        default=1000,
        kind=Int(0, _INT32_MAX - 1),
        doc="Highest broker id given by hand; generated ids begin above it.",
    )
    broker_id_generation: bool = option(
        "broker.id.generation.enable",
        default=True,
        kind=Bool(),
        doc="Whether a broker without an id takes the next free one.",
    )
    rack: str = option(
        "broker.rack",
        default="",
        kind=Str(),
        doc="Rack or zone of this broker, for the assignment of replicas.",
    )
    host: str = option(
        "host.name",
        "hostname",
        default="",
        kind=Str(),
        doc="Host or address to listen on where `listeners` is not given; empty is every address.",
    )
    port: int = option(
        "port",
        default=9092,
        kind=Int(0, 65535),
        doc="Port to listen on where `listeners` is not given; 0 takes a free one.",
    )
    advertised_host: str = option(
        "advertised.host.name",
        default="",
        kind=Str(),
        doc="Host clients are told to connect to; `host.name`, or this machine's, when empty.",
    )
    advertised_port: int = option(
        "advertised.port",
        default=-1,
        kind=Int(-1, 65535),
        doc="Port clients are told to connect to; -1 is the port listened on.",
    )
    listeners: tuple[str, ...] = option(
        "listeners",
        default=(),
        kind=StrList(),
        doc="What to listen on, `NAME://host:port` separated by commas.",
    )
    advertised_listeners: tuple[str, ...] = option(
        "advertised.listeners",
        default=(),
        kind=StrList(),
        doc="What clients of each listener are told to connect to.",
    )
    listener_protocols: tuple[str, ...] = option(
        "listener.security.protocol.map",
        default=(),
        kind=StrList(),
        doc="`NAME:PROTOCOL` pairs; every protocol in use must be PLAINTEXT.",
    )
    zookeeper_connect: str = option(
        "zookeeper.connect",
        "zk.connect",
        kind=Str(empty=False),
        doc="ZooKeeper servers, `host:port` separated by commas, with an optional /chroot.",
    )
    zookeeper_session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        "zk.sessiontimeout.ms",
        default=6000,
        kind=Int(1),
        doc="Time in ms after which ZooKeeper takes a silent broker for dead.",
    )
    zookeeper_connection_timeout_ms: int = option(
        "zookeeper.connection.timeout.ms",
        "zk.connectiontimeout.ms",
        default=-1,
        kind=Int(-1),
        doc="Time in ms to reach ZooKeeper at the start; -1 is the session time-out.",
    )
    partition_state_znodes: str = option(
        "partition.state.znodes",
        default="ephemeral",
        kind=Str(choices=("ephemeral", "persistent")),
        doc="How leaders stand in `/brokers/topics/[t]/partitions/[n]/state`: ephemeral, as the "
        "design documents have it, or persistent, as genuine brokers keep it (set it to join a "
        "cluster of those).",
    )
    inter_broker_protocol: str = option(
        "inter.broker.protocol.version",
        default="2.3",
        kind=Str(choices=tuple(LEVELS), spellings=LEVEL_SPELLINGS),
        doc="Which versions of requests brokers send each other; the same at every broker of a "
        "cluster.",
    )
    inter_broker_listener: str = option(
        "inter.broker.listener.name",
        default="",
        kind=Str(),
        doc="Brokers use the first of `listeners` of each other; another name is refused.",
    )
    security_inter_broker: str = option(
        "security.inter.broker.protocol",
        default="PLAINTEXT",
        kind=Str(choices=("PLAINTEXT",)),
        doc="Brokers speak plain text to each other: PLAINTEXT is without effect, and any other "
        "protocol is refused; put a TLS proxy or a private network between them.",
    )
    auto_leader_rebalance: bool = option(
        "auto.leader.rebalance.enable",
        default=True,
        kind=Bool(),
        doc="Whether the controller makes preferred replicas leaders again by itself.",
    )
    leader_imbalance_percentage: int = option(
        "leader.imbalance.per.broker.percentage",
        default=10,
        kind=Int(0, 100),
        doc="Share, in percent, of the partitions that a broker is preferred for and does not "
        "lead, above which the controller elects it.",
    )
    leader_imbalance_check_s: int = option(
        "leader.imbalance.check.interval.seconds",
        default=300,
        kind=Int(1, _INT32_MAX),
        doc="Time in seconds between two looks at that share.",
    )
    controller_socket_timeout_ms: int = option(
        "controller.socket.timeout.ms",
        default=30_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms that the controller waits for a broker's answer before it sends again.",
    )
    controller_queue_size: int = option(
        "controller.message.queue.size",
        default=1000,
        kind=Int(10, _INT32_MAX),
        doc="Requests of the controller that may wait for one broker; above it they are replaced "
        "by one that says everything anew.",
    )
    num_partitions: int = option(
        "num.partitions",
        default=1,
        kind=Int(1, _INT32_MAX),
        doc="Partitions of a topic that is created without saying how many.",
    )
    topic_partitions: Mapping[str, int] = option(
        "topic.partition.count.map",
        default_factory=dict,
        kind=StrMap(),
        doc="Partitions of single topics, `topic:number` (0.7).",
    )
    default_replication_factor: int = option(
        "default.replication.factor",
        default=1,
        kind=Int(1, 32767),
        doc="Replicas of a topic that is created without saying how many.",
    )
    auto_create_topics: bool = option(
        "auto.create.topics.enable",
        default=True,
        kind=Bool(),
        doc="Whether asking for the metadata of an unknown topic creates it.",
    )
    delete_topics: bool = option(
        "delete.topic.enable",
        default=True,
        kind=Bool(),
        doc="Whether topics can be deleted (false was the default up to 0.11).",
    )
    fetch_conversion_max_bytes: int = option(
        "fetch.conversion.max.bytes",
        default=64 * 1024 * 1024,
        kind=Int(1),
        doc="Memory in bytes for messages converted for older readers; the more of it waits for "
        "readers that are slow, the less the next answer holds. An answer may always hold one "
        "batch; batches that expand beyond 4 MiB are converted one at a time.",
    )
    queued_max_requests: int = option(
        "queued.max.requests",
        default=500,
        kind=Int(1, _INT32_MAX),
        doc="Requests worked on at once; further ones wait in their connections.",
    )
    queued_max_request_bytes: int = option(
        "queued.max.request.bytes",
        default=1024 * 1024 * 1024,
        kind=Int(-1),
        doc="Memory in bytes of all requests above 64 KiB that come in or are worked on, counted "
        "as they arrive; beyond it, and beyond half of it for one address, further bytes wait. -1 "
        "is any number, the genuine default.",
    )
    min_request_bytes_per_second: int = option(
        "socket.request.min.bytes.per.second",
        default=16 * 1024,
        kind=Int(0, _INT32_MAX),
        doc="What a request above 64 KiB must bring per second while others wait for memory; a "
        "slower one closes its connection.",
    )
    max_request_bytes: int = option(
        "socket.request.max.bytes",
        "max.socket.request.bytes",
        default=100 * 1024**2,
        kind=Int(1, _INT32_MAX),
        doc="Largest request in bytes; a longer one closes its connection.",
    )
    max_request_items: int = option(
        "request.max.items",
        default=200_000,
        kind=Int(1, _INT32_MAX),
        doc="Topics, partitions and other array items that one request may hold, all together; a "
        "request with more closes its connection.",
    )
    max_request_records: int = option(
        "request.max.compressed.records",
        default=1_000_000,
        kind=Int(1, _INT32_MAX),
        doc="Records that the compressed batches of one produce request may hold, all together; "
        "what goes beyond is refused with error 10.",
    )
    max_decompressed_bytes: int = option(
        "request.max.decompressed.bytes",
        default=128 * 1024**2,
        kind=Int(1),
        doc="Bytes that the compressed batches of one produce request may expand to, all together; "
        "what goes beyond is refused with error 10.",
    )
    send_buffer_bytes: int = option(
        "socket.send.buffer.bytes",
        "socket.send.buffer",
        default=-1,
        kind=Int(-1, _INT32_MAX),
        doc="SO_SNDBUF of connections; -1 lets the system adapt it, which is faster than any "
        "fixed size (102400 was the default of genuine brokers).",
    )
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes",
        "socket.receive.buffer",
        default=-1,
        kind=Int(-1, _INT32_MAX),
        doc="SO_RCVBUF of connections; -1 lets the system adapt it.",
    )
    max_connections: int = option(
        "max.connections",
        default=_INT32_MAX,
        kind=Int(1, _INT32_MAX),
        doc="Connections open at once; further ones are closed as they come.",
    )
    max_connections_per_ip: int = option(
        "max.connections.per.ip",
        default=_INT32_MAX,
        kind=Int(0, _INT32_MAX),
        doc="Connections open at once from one address.",
    )
    max_connections_overrides: Mapping[str, int] = option(
        "max.connections.per.ip.overrides",
        default_factory=dict,
        kind=StrMap(),
        doc="`address:number` pairs that replace `max.connections.per.ip`.",
    )
    max_idle_ms: int = option(
        "connections.max.idle.ms",
        default=600_000,
        kind=Int(1),
        doc="Time in ms after which a connection on which nothing moves is closed.",
    )
    max_frame_ms: int = option(
        "socket.request.timeout.ms",
        default=30_000,
        kind=Int(1),
        doc="Time in ms that part of a request may wait for its next byte.",
    )
    controlled_shutdown_ms: int = option(
        "shutdown.timeout.ms",
        default=30_000,
        kind=Int(1),
        doc="Time in ms that requests in flight get to be answered when the broker stops.",
    )
    controlled_shutdown: bool = option(
        "controlled.shutdown.enable",
        default=True,
        kind=Bool(),
        doc="Whether a broker that stops has the controller move what it leads first.",
    )
    controlled_shutdown_retries: int = option(
        "controlled.shutdown.max.retries",
        default=3,
        kind=Int(1, _INT32_MAX),
        doc="How often it asks before it stops all the same.",
    )
    controlled_shutdown_backoff_ms: int = option(
        "controlled.shutdown.retry.backoff.ms",
        default=5000,
        kind=Int(0, _INT32_MAX),
        doc="Time in ms between two of these.",
    )
    replica_lag_ms: int = option(
        "replica.lag.time.max.ms",
        default=10_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms after which a replica that has not caught up with its leader counts as out "
        "of sync.",
    )
    replica_fetchers: int = option(
        "num.replica.fetchers",
        default=1,
        kind=Int(1, _INT32_MAX),
        doc="Tasks that copy partitions from each other broker, each with a connection.",
    )
    replica_fetch_max_bytes: int = option(
        "replica.fetch.max.bytes",
        default=1024 * 1024,
        kind=Int(1, _INT32_MAX),
        doc="Bytes of one partition that a follower asks for at once; one batch may be larger.",
    )
    replica_fetch_response_max_bytes: int = option(
        "replica.fetch.response.max.bytes",
        default=10 * 1024 * 1024,
        kind=Int(1, _INT32_MAX),
        doc="Bytes of all partitions that a follower asks for at once; one batch may be larger.",
    )
    replica_fetch_min_bytes: int = option(
        "replica.fetch.min.bytes",
        default=1,
        kind=Int(0, _INT32_MAX),
        doc="Bytes that a leader waits for before it answers a follower.",
    )
    replica_fetch_wait_ms: int = option(
        "replica.fetch.wait.max.ms",
        default=500,
        kind=Int(0, _INT32_MAX),
        doc="Longest time in ms that it waits for them; at most `replica.lag.time.max.ms`.",
    )
    replica_fetch_backoff_ms: int = option(
        "replica.fetch.backoff.ms",
        default=1000,
        kind=Int(1, _INT32_MAX),
        doc="Longest time in ms until a follower tries again what failed; the first tries come "
        "sooner.",
    )
    replica_socket_timeout_ms: int = option(
        "replica.socket.timeout.ms",
        default=30_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms that a follower waits for an answer; at least `replica.fetch.wait.max.ms`.",
    )
    replica_receive_buffer_bytes: int = option(
        "replica.socket.receive.buffer.bytes",
        default=64 * 1024,
        kind=Int(-1, _INT32_MAX),
        doc="SO_RCVBUF of a follower's connections; -1 lets the system adapt it.",
    )
    high_watermark_checkpoint_ms: int = option(
        "replica.high.watermark.checkpoint.interval.ms",
        default=5000,
        kind=Int(1),
        doc="Time in ms between two writes of the high watermarks to "
        "`replication-offset-checkpoint`.",
    )
    replication_quota_windows: int = option(
        "replication.quota.window.num",
        default=11,
        kind=Int(1, _INT32_MAX),
        doc="Windows over which throttled replication is measured.",
    )
    replication_quota_window_s: int = option(
        "replication.quota.window.size.seconds",
        default=1,
        kind=Int(1, _INT32_MAX),
        doc="Length of each in seconds.",
    )
    fetch_session_slots: int = option(
        "max.incremental.fetch.session.cache.slots",
        default=1000,
        kind=Int(0, _INT32_MAX),
        doc="Fetch sessions of followers that a broker keeps; the one that was used longest ago "
        "makes room for another.",
    )
    admin_port: int = option(
        "admin.port",
        default=-1,
        kind=Int(-1, 65535),
        doc="Port of the HTTP page with metrics (/metrics, Prometheus form) and client versions "
        "(/clients, JSON); 0 takes a free one, -1 opens none.",
    )
    admin_host: str = option(
        "admin.host",
        default="127.0.0.1",
        kind=Str(empty=False),
        doc="Address of the HTTP page.",
    )
    metrics_topics: int = option(
        "metrics.topics.max",
        default=1000,
        kind=Int(0, _INT32_MAX),
        doc="Topics with metrics of their own; the ones beyond are counted together.",
    )
    offset_metadata_max_bytes: int = option(
        "offset.metadata.max.bytes",
        default=4096,
        kind=Int(0, _INT32_MAX),
        doc="Largest metadata string that a consumer may commit with an offset.",
    )
    offsets_retention_ms: int = option(
        ("offsets.retention.minutes", _MINUTE_MS),
        default=10_080 * _MINUTE_MS,
        kind=Int(1),
        doc="Time in ms that committed offsets of a group without members are kept (1440 minutes, "
        "counted from each commit, up to 1.1).",
    )
    offsets_retention_check_ms: int = option(
        "offsets.retention.check.interval.ms",
        default=600_000,
        kind=Int(1),
        doc="Time in ms between two looks for expired offsets.",
    )
    offsets_topic_partitions: int = option(
        "offsets.topic.num.partitions",
        default=50,
        kind=Int(1, _INT32_MAX),
        doc="Partitions of `__consumer_offsets`, fixed when the topic is created.",
    )
    offsets_topic_replication_factor: int = option(
        "offsets.topic.replication.factor",
        default=3,
        kind=Int(1, 32767),
        doc="Replicas of `__consumer_offsets`, fixed when the topic is created; no more than there "
        "are brokers then, with a warning where that is fewer.",
    )
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes",
        default=100 * 1024**2,
        kind=Int(14, _INT32_MAX),
        doc="Segment size of `__consumer_offsets`.",
    )
    transaction_topic_replication_factor: int = option(
        "transaction.state.log.replication.factor",
        default=3,
        kind=Int(1, 32767),
        doc="Replicas of a partition of `__transaction_state`; with fewer brokers at its "
        "creation it gets as many as there are, with a warning.",
    )
    transaction_topic_min_isr: int = option(
        "transaction.state.log.min.isr",
        default=2,
        kind=Int(1, 32767),
        doc="`min.insync.replicas` of `__transaction_state`; never more than it has replicas.",
    )
    transaction_topic_partitions: int = option(
        "transaction.state.log.num.partitions",
        default=50,
        kind=Int(1, _INT32_MAX),
        doc="Partitions of `__transaction_state`, fixed when the topic is created.",
    )
    transaction_topic_segment_bytes: int = option(
        "transaction.state.log.segment.bytes",
        default=100 * 1024**2,
        kind=Int(14, _INT32_MAX),
        doc="Segment size of `__transaction_state`.",
    )
    transaction_max_timeout_ms: int = option(
        "transaction.max.timeout.ms",
        default=900_000,
        kind=Int(1, _INT32_MAX),
        doc="Longest time in ms that a producer may let its transactions take.",
    )
    transaction_metadata_bytes: int = option(
        "transaction.metadata.max.bytes",
        default=256 * 1024**2,
        kind=Int(1),
        doc="Memory for the transactional ids that a broker coordinates, with the partitions of "
        "their transactions, about; a new id or partition beyond it is refused "
        "(POLICY_VIOLATION).",
    )
    transaction_abort_check_ms: int = option(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        default=60_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms between two looks for transactions that take longer than they may.",
    )
    transaction_expiration_check_ms: int = option(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        default=3_600_000,
        kind=Int(1, _INT32_MAX),
        doc="Time in ms between two looks for transactional ids that are not used any more.",
    )
    transaction_verification: bool = option(
        "transaction.partition.verification.enable",
        default=True,
        kind=Bool(),
        doc="Whether a partition's leader asks the coordinator before it lets a transaction begin; "
        "without, a late batch may open one that nobody ends. Beside genuine brokers "
        "(`partition.state.znodes=persistent`) nobody is asked.",
    )
    offsets_topic_codec: int = option(
        "offsets.topic.compression.codec",
        default=0,
        kind=Int(0, 4),
        doc="Compression codec of `__consumer_offsets`, by number.",
    )
    offsets_commit_timeout_ms: int = option(
        "offsets.commit.timeout.ms",
        default=5000,
        kind=Int(1),
        doc="Longest time in ms that a commit of offsets, or a change of a transaction, waits for "
        "its append.",
    )
    group_min_session_timeout_ms: int = option(
        "group.min.session.timeout.ms",
        default=6000,
        kind=Int(1),
        doc="Shortest session time-out that a group member may ask for.",
    )
    group_max_session_timeout_ms: int = option(
        "group.max.session.timeout.ms",
        default=1_800_000,
        kind=Int(1),
        doc="Longest session time-out that a group member may ask for.",
    )
    group_initial_rebalance_delay_ms: int = option(
        "group.initial.rebalance.delay.ms",
        default=3000,
        kind=Int(0),
        doc="Time in ms that an empty group waits for more members after its first one joined.",
    )
    group_max_size: int = option(
        "group.max.size",
        default=_INT32_MAX,
        kind=Int(1, _INT32_MAX),
        doc="Members that one group may have.",
    )
    group_metadata_max_bytes: int = option(
        "group.metadata.max.bytes",
        default=256 * 1024**2,
        kind=Int(1),
        doc="Memory in bytes for all groups with the metadata and assignments of their members; a "
        "member that does not fit is refused with error 15, and tries again.",
    )
    log: LogConfig = field(default_factory=LogConfig)
    """Defaults of every topic's log."""
    log_manager: LogManagerConfig = field(default_factory=LogManagerConfig)
    legacy07: Legacy07Config = field(default_factory=Legacy07Config)
    """The listener for clients of Kafka 0.7, and its logs."""

    IGNORED: ClassVar[Mapping[str, str]] = IGNORED

    def __post_init__(self) -> None:
        validate(self)
        if self.broker_id < 0 and not self.broker_id_generation:
            raise ConfigError("broker.id is required while broker.id.generation.enable=false")
        if self.broker_id > self.reserved_broker_max_id and self.broker_id_generation:
            logger.warning(
                "config key=broker.id value=%d lies in the range of generated ids, above "
                "reserved.broker.max.id=%d",
                self.broker_id,
                self.reserved_broker_max_id,
            )
        self._check_follower_times()
        named = {endpoint.name for endpoint in self.endpoints}
        first = self.endpoints[0].name
        if self.inter_broker_listener not in ("", first):
            raise ConfigError(
                f"inter.broker.listener.name={self.inter_broker_listener} is not allowed: brokers "
                f"use the first listener of each other, which is {first}; put that one first in "
                "listeners"
            )
        for endpoint in self._advertised():
            if endpoint.name not in named:
                raise ConfigError(f"advertised.listeners names {endpoint.name}, listeners does not")
            if endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
                raise ConfigError(
                    f"advertised.listeners={endpoint} is not allowed: no client can connect to "
                    f"{endpoint.host}"
                )
        if self.legacy07.listener:
            self._check_legacy07()

    def _check_legacy07(self) -> None:
        own = self.legacy07
        if Path(own.log_dir).resolve() in {
            Path(each).resolve() for each in self.log_manager.log_dirs
        }:
            raise ConfigError(
                f"legacy07.log.dir={own.log_dir} is one of log.dirs: give log.dirs another "
                "directory, 0.7 logs and newer ones cannot share one"
            )
        if own.chroot.strip("/") == self.zookeeper_connect.partition("/")[2].strip("/"):
            raise ConfigError(
                f"legacy07.zookeeper.chroot={own.chroot} is the chroot of zookeeper.connect: give "
                "one of them another, the two registries cannot share one"
            )

    def _check_follower_times(self) -> None:
        wait_ms = self.replica_fetch_wait_ms
        if wait_ms > self.replica_socket_timeout_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is above replica.socket.timeout.ms="
                f"{self.replica_socket_timeout_ms}: every idle follower would lose its connection"
            )
        if wait_ms > self.replica_lag_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is above replica.lag.time.max.ms="
                f"{self.replica_lag_ms}: idle replicas would fall out of sync"
            )

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "BrokerConfig":
        """Build a broker's configuration, its log's included, from properties.

        Args:
            properties: key → text, as read from `server.properties`.
            warn: receives each warning; the log of `zkbroker.config` by default.

        Raises:
            ConfigError: a value is not allowed, or `zookeeper.connect` is missing.
        """
        report = warn if warn is not None else logger.warning
        authorizer = properties.get(AUTHORIZER, "").strip()
        if authorizer:
            raise ConfigError(
                f"{AUTHORIZER}={authorizer} is not obeyed yet, and without it everybody "
                "may do everything: remove it, and protect the listeners by the network instead"
            )
        own: dict[str, str] = {}
        of_log: dict[str, str] = {}
        for key, value in properties.items():
            if key == AUTHORIZER:
                continue
            prefix = next((known for known in IGNORED_PREFIXES if key.startswith(known)), None)
            if key in LOG_KEYS:
                of_log[key] = value
                if key in LogManagerConfig.IGNORED:
                    report(f"config key={key} has no effect: {LogManagerConfig.IGNORED[key]}")
            elif prefix is not None and key not in IGNORED:
                report(f"config key={key} has no effect: {IGNORED_PREFIXES[prefix]}")
            else:
                own[key] = value
        legacy07 = Legacy07Config()
        if properties.get(LISTENER, "").strip():
            legacy07 = Legacy07Config.from_properties(properties)
        for key in LEGACY07_KEYS & own.keys() - _OWN_KEYS:
            del own[key]
            if not legacy07.listener:
                report(f"config key={key} has no effect without {LISTENER}")
        config = from_properties(cls, own, warn=report, also_known=LOG_KEYS | LEGACY07_KEYS)
        config = replace(
            config,
            log=from_properties(LogConfig, of_log, warn=_quiet),
            log_manager=from_properties(LogManagerConfig, of_log, warn=_quiet),
            legacy07=legacy07,
        )
        if config.inter_broker_protocol == LEVELS[0] and config.log.pinned_magic != 0:
            raise ConfigError(
                f"inter.broker.protocol.version={LEVELS[0]} needs log.message.format.version="
                f"{LEVELS[0]}: followers of that level copy messages of magic 0 alone"
            )
        return config

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What to listen on."""
        protocols = parse_protocol_map(self.listener_protocols)
        if self.listeners:
            return parse_listeners(self.listeners, "listeners", protocols)
        return (Endpoint(PLAINTEXT, self.host, self.port),)

    def advertised_endpoints(
        self, bound: Mapping[str, tuple[str, int]], machine: Callable[[], str]
    ) -> tuple[Endpoint, ...]:
        """What clients are told, one endpoint for each listener in the same order.

        Args:
            bound: listener name → address really listened on, for ports that were left free.
            machine: finds this machine's own name, for listeners on every address.
        """
        given = {endpoint.name: endpoint for endpoint in self._advertised()}
        found: list[Endpoint] = []
        for endpoint in self.endpoints:
            advertised = given.get(endpoint.name, endpoint)
            host = advertised.host or endpoint.host
            if host in ("", "0.0.0.0", "::"):  # noqa: S104 - replaced, not bound
                host = machine()
            port = advertised.port or bound[endpoint.name][1]
            found.append(Endpoint(endpoint.name, host, port))
        return tuple(found)

    def _advertised(self) -> tuple[Endpoint, ...]:
        if self.advertised_listeners:
            return tuple(
                parse_endpoint(text, "advertised.listeners") for text in self.advertised_listeners
            )
        if not self.advertised_host and self.advertised_port < 0:
            return ()
        first = self.endpoints[0]
        return (
            Endpoint(
                first.name,
                self.advertised_host or first.host,
                self.advertised_port if self.advertised_port >= 0 else first.port,
            ),
        )


_OWN_KEYS = {key for _, declared in options(BrokerConfig) for key, _ in declared.keys}


def _quiet(text: str) -> None:
    """Drop a warning: each of the two log configurations is given the other's keys as well."""
