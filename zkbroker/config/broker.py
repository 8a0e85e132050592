"""Settings of a broker, in the spellings of 0.7.2, 0.8.2 and every later ZooKeeper-based Kafka.

Invariant: a genuine `server.properties` of any of those generations works unmodified. Each of its
keys is an option here or of the log (`zkbroker.config.log`), or stands in `IGNORED` or
`IGNORED_PREFIXES` with the reason why it has no effect, which is logged when the key is given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from zkbroker.config.ignored_broker_keys import IGNORED, IGNORED_PREFIXES
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
    validate,
)
from zkbroker.errors import ConfigError

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000


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
        "batch.",
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
        doc="Memory in bytes of all requests above 64 KiB that come in or are worked on; further "
        "ones wait. -1 is any number, the genuine default.",
    )
    max_request_bytes: int = option(
        "socket.request.max.bytes",
        "max.socket.request.bytes",
        default=100 * 1024**2,
        kind=Int(1, _INT32_MAX),
        doc="Largest request in bytes; a longer one closes its connection.",
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
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes",
        default=100 * 1024**2,
        kind=Int(14, _INT32_MAX),
        doc="Segment size of `__consumer_offsets`.",
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
        doc="Longest time in ms that a commit waits for its append.",
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
    log: LogConfig = field(default_factory=LogConfig)
    """Defaults of every topic's log."""
    log_manager: LogManagerConfig = field(default_factory=LogManagerConfig)

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
        named = {endpoint.name for endpoint in self.endpoints}
        for endpoint in self._advertised():
            if endpoint.name not in named:
                raise ConfigError(f"advertised.listeners names {endpoint.name}, listeners does not")
            if endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
                raise ConfigError(
                    f"advertised.listeners={endpoint} is not allowed: no client can connect to "
                    f"{endpoint.host}"
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
        own: dict[str, str] = {}
        of_log: dict[str, str] = {}
        for key, value in properties.items():
            prefix = next((known for known in IGNORED_PREFIXES if key.startswith(known)), None)
            if key in LOG_KEYS:
                of_log[key] = value
                if key in LogManagerConfig.IGNORED:
                    report(f"config key={key} has no effect: {LogManagerConfig.IGNORED[key]}")
            elif prefix is not None and key not in IGNORED:
                report(f"config key={key} has no effect: {IGNORED_PREFIXES[prefix]}")
            else:
                own[key] = value
        config = from_properties(cls, own, warn=report)
        return replace(
            config,
            log=from_properties(LogConfig, of_log, warn=_quiet),
            log_manager=from_properties(LogManagerConfig, of_log, warn=_quiet),
        )

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


def _quiet(text: str) -> None:
    """Drop a warning: each of the two log configurations is given the other's keys as well."""
