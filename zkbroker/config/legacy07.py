"""Settings of the second listener, which speaks Kafka 0.7, and of its logs.

Invariant: the names and defaults are those of a 0.7.2 `server.properties`, so that one goes on
working with the lines `legacy07.*` added; each of its keys is an option here, an option of the
broker (`BrokerConfig`), or named in `IGNORED` there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zkbroker.config.listeners import Endpoint, parse_endpoint
from zkbroker.config.schema import (
    Bool,
    Int,
    Int32,
    Ms,
    Str,
    StrMap,
    from_properties,
    keys,
    option,
    validate,
)
from zkbroker.errors import ConfigError

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
NAME = "LEGACY07"
LISTENER = "legacy07.listener"
LOG_DIR = "legacy07.log.dir"


def beside(log_dir: str) -> str:
    """Return the default directory of the 0.7 logs: beside a directory of newer logs."""
    return f"{log_dir.rstrip('/')}-07"


@dataclass(frozen=True, slots=True, kw_only=True)
class Legacy07Config:
    """Settings of the 0.7 listener and its logs. Sizes in bytes, times in milliseconds."""

    # fmt: off
    listener: str = option(LISTENER, Str(), "",
        "`host:port` of the listener for clients of Kafka 0.7; empty opens none. Port 0 takes a "
        "free one, 6667 was the default of 0.7.")
    advertised_listener: str = option("legacy07.advertised.listener", Str(), "",
        "`host:port` that 0.7 clients connect to, not an IPv6 address; when empty, that of the "
        "listener.")
    log_dir: str = option(LOG_DIR, Str(), "",
        "Directory of the 0.7 logs: the `log.dir` of a 0.7 broker, or a new one. It cannot be one "
        "of `log.dirs`; when empty it lies beside the first of them, with `-07` at its end.")
    chroot: str = option("legacy07.zookeeper.chroot", Str(empty=False), "/kafka07",
        "Where the 0.7 registry lies in ZooKeeper, from the root of the servers in "
        "`zookeeper.connect`; `/` is the root itself. It cannot be the chroot of "
        "`zookeeper.connect`.")
    broker_id: int = option("legacy07.broker.id", Int32(-1), -1,
        "Id of this broker in the 0.7 registry; -1 is `broker.id`. It must stay what it was: the "
        "offsets of 0.7 groups name it.")
    max_logs: int = option("legacy07.logs.max", Int32(1), 10_000,
        "Most 0.7 logs that producers may create; a set that needs one more closes its connection.")
    topics: str = option("legacy07.topics", Str(), "",
        "Regular expression of newer topics that clients of 0.7 read and write too: each partition "
        "gets a view here, at the broker that was its first replica. It must match the whole name; "
        "empty matches none.")
    share_new_topics: bool = option("legacy07.share.new.topics", Bool(), True,
        "Whether a topic that is first written through 0.7 becomes a newer topic with a view; "
        "otherwise it gets a 0.7 log of its own, which newer clients do not see.")
    message_magic: int = option("legacy07.message.magic", Int(0, 1), 1,
        "Magic in which clients of 0.7 get messages of newer producers. 0 is for clients that know "
        "no other.")
    pending_bytes: int = option("legacy07.pending.max.bytes", Int32(0), 16 * 1024**2,
        "Bytes of each partition from 0.7 producers that are kept as they came until every replica "
        "in sync has them; further bytes are shown uncompressed.")
    forward_timeout_ms: int = option("legacy07.forward.timeout.ms", Int32(1), 10_000,
        "Time for a partition's leader on another broker to take messages that were produced to a "
        "view here; after it the producer's connection is closed.")
    num_partitions: int = option("num.partitions", Int32(1), 1,
        "Partitions of a topic on each broker.")
    topic_partitions: Mapping[str, int] = option("topic.partition.count.map", StrMap(), {},
        "Partitions of single topics, `topic:number`.")
    max_topic_length: int = option("max.topic.name.length", Int32(1), 255,
        "Longest name of a 0.7 topic, in characters.")
    max_message_bytes: int = option("max.message.size", Int32(0), 1_000_000,
        "Largest payload in bytes; a set with a larger one is dropped.")
    file_bytes: int = option("log.file.size", Int32(1), 1024**3,
        "Size in bytes above which a log gets a new file.")
    topic_file_bytes: Mapping[str, int] = option("topic.log.file.size", StrMap(), {},
        "File sizes of single topics.")
    roll_ms: int = option("log.roll.hours", Ms(1), 168 * _HOUR_MS,
        "Age above which a log gets a new file, counted from its first append since the start.")
    topic_roll_hours: Mapping[str, int] = option("topic.log.roll.hours", StrMap(), {},
        "Roll ages of single topics, in hours.")
    retention_ms: int = option("log.retention.hours", Ms(-1), 168 * _HOUR_MS,
        "Time after its last append for which a file is kept; -1 is for ever.")
    topic_retention_hours: Mapping[str, int] = option("topic.log.retention.hours", StrMap(), {},
        "Retention times of single topics, in hours.")
    retention_bytes: int = option("log.retention.size", Int(-1), -1,
        "Size to which a log is kept, in whole files; -1 is any size.")
    topic_retention_bytes: Mapping[str, int] = option("topic.log.retention.size", StrMap(), {},
        "Retention sizes of single topics.")
    cleanup_ms: int = option("log.cleanup.interval.mins", Ms(1), 10 * _MINUTE_MS,
        "Time between two searches for files to delete.")
    flush_messages: int = option("log.flush.interval", Int32(1), 500,
        "Messages after which a log is flushed; readers see what is flushed.")
    flush_check_ms: int = option("log.default.flush.scheduler.interval.ms", Ms(1), 3000,
        "Time between two searches for logs to flush.")
    flush_ms: int = option("log.default.flush.interval.ms", Ms(-1), -1,
        "Time after which a log is flushed; -1 is that of the scheduler.")
    topic_flush_ms: Mapping[str, int] = option("topic.flush.intervals.ms", StrMap(), {},
        "Flush intervals of single topics.")
    # fmt: on

    def __post_init__(self) -> None:
        validate(self)
        try:
            re.compile(self.topics)
        except re.error as error:
            raise ConfigError(
                f"legacy07.topics={self.topics!r} is no regular expression: {error}"
            ) from error
        if not self.listener:
            return
        if not self.log_dir:
            raise ConfigError(
                "legacy07.listener needs legacy07.log.dir: the log.dir of the 0.7 broker, or a new "
                "directory"
            )
        if not self.chroot.startswith("/"):
            raise ConfigError(f"legacy07.zookeeper.chroot={self.chroot!r} must begin with /")
        _ = self.endpoint
        if ":" in self.advertised.host:
            raise ConfigError(
                f"legacy07.advertised.listener={self.advertised} is not allowed: 0.7 clients split "
                "addresses at colons; give a host name or an IPv4 address"
            )

    @property
    def endpoint(self) -> Endpoint:
        """The address to listen on."""
        return parse_endpoint(f"{NAME}://{self.listener}", "legacy07.listener")

    @property
    def advertised(self) -> Endpoint:
        """The address that clients get; an empty host and the port 0 are filled in later."""
        if not self.advertised_listener:
            return self.endpoint
        return parse_endpoint(
            f"{NAME}://{self.advertised_listener}", "legacy07.advertised.listener"
        )

    def wants_view(self, topic: str) -> bool:
        """Whether the settings say that a newer topic has views."""
        return bool(self.topics) and re.fullmatch(self.topics, topic) is not None

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic this broker has."""
        return self.topic_partitions.get(topic, self.num_partitions)

    def of_log(self, topic: str) -> "Log07Settings":
        """Return the settings of a topic's logs."""
        flush_ms = self.flush_ms if self.flush_ms >= 0 else self.flush_check_ms
        return Log07Settings(
            file_bytes=self.topic_file_bytes.get(topic, self.file_bytes),
            roll_ms=_hours(self.topic_roll_hours, topic, self.roll_ms),
            retention_ms=_hours(self.topic_retention_hours, topic, self.retention_ms),
            retention_bytes=self.topic_retention_bytes.get(topic, self.retention_bytes),
            flush_messages=self.flush_messages,
            flush_ms=self.topic_flush_ms.get(topic, flush_ms),
        )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "Legacy07Config":
        """Build it from a broker's properties, of which it reads its own keys.

        Raises:
            ConfigError: a value is not allowed.
        """
        own = {key: value for key, value in properties.items() if key in KEYS}
        return from_properties(cls, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log07Settings:
    """Settings of one 0.7 log; see `Legacy07Config`."""

    file_bytes: int = 1024**3
    roll_ms: int = 168 * _HOUR_MS
    retention_ms: int = 168 * _HOUR_MS
    retention_bytes: int = -1
    flush_messages: int = 500
    flush_ms: int = field(default=3000)


def how_to_serve(directory: object) -> str:
    """Return the settings with which a directory of 0.7 logs is served."""
    return (
        f"to serve it to clients of 0.7, set {LISTENER}=host:port and legacy07.log.dir="
        f"{directory}, and give log.dirs another directory"
    )


def _hours(by_topic: Mapping[str, int], topic: str, default_ms: int) -> int:
    return by_topic[topic] * _HOUR_MS if topic in by_topic else default_ms


KEYS = keys(Legacy07Config)
"""Every key that `Legacy07Config` reads."""
