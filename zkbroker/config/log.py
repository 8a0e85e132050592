"""Settings of the log: broker-wide spellings of every generation and the overrides of a topic.

Invariant: a `LogConfig` is the complete, effective configuration of one topic's logs. The broker's
properties give the defaults; `with_topic_overrides` applies what the topic's own configuration in
ZooKeeper says, under the topic-level names of 0.8.1 and later. Names and defaults are those of the
genuine 0.7.2, 0.8.2 and 0.10.2 code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from zkbroker.codecs import CODEC_NAMES
from zkbroker.config.schema import (
    Bool,
    Float,
    Int,
    Int32,
    Ms,
    Str,
    StrList,
    StrMap,
    keys,
    nearest,
    option,
    options,
    parse_value,
    validate,
)
from zkbroker.errors import ConfigError

NEVER = 2**63 - 1
_HOUR_MS = 3_600_000
_WEEK_MS = 168 * _HOUR_MS

_FORMATS = ("producer", "0", "1", "2")
_VERSION = re.compile(r"(?:(0)\.(\d+)|([1-9]\d*)\.\d+)(?:[.\-].*)?$")

_THROTTLED = re.compile(r"|\*|\d{1,9}:\d{1,9}(?:\s*,\s*\d{1,9}:\d{1,9})*")


def magic_of_format(text: str) -> int | None:
    """Return the magic that a `message.format.version` pins, None for `producer`.

    Args:
        text: `producer` (store as sent), a magic `0`, `1`, `2`, or a Kafka version: below 0.10 is
            magic 0, 0.10 is magic 1, 0.11 and later are magic 2.

    Raises:
        ValueError: it is none of these.
    """
    if text == "producer":
        return None
    if text in ("0", "1", "2"):
        return int(text)
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(text)
    if match.group(3) is not None:
        return 2
    minor = int(match.group(2))
    return 0 if minor < 10 else 1 if minor == 10 else 2


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """`producer`, a magic, or a Kafka version that implies one."""

    def parse(self, text: str) -> str:
        return text.strip()

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and (value in _FORMATS or _VERSION.match(value) is not None)

    @property
    def allowed(self) -> str:
        return "producer, 0, 1, 2 or a Kafka version such as 0.10.2"


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """`delete`, `compact` or both, kept as sorted text with commas."""

    def parse(self, text: str) -> str:
        return ",".join(sorted({part.strip().lower() for part in text.split(",")}))

    def accepts(self, value: Any) -> bool:
        return value in ("delete", "compact", "compact,delete")

    @property
    def allowed(self) -> str:
        return "delete, compact, or both separated by a comma"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*` for every replica of a topic, or `partition:broker` pairs."""

    def parse(self, text: str) -> str:
        return text.strip()

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and _THROTTLED.fullmatch(value) is not None

    @property
    def allowed(self) -> str:
        return "* or partition:broker pairs, separated by commas"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Effective settings of one topic's logs. Sizes in bytes, times in milliseconds."""

    # fmt: off
    segment_bytes: int = option("log.segment.bytes log.file.size", Int32(14), 1024**3,
        "Size in bytes at which a log begins a new segment.")
    roll_ms: int = option("log.roll.ms log.roll.hours", Ms(1), _WEEK_MS,
        "Age in ms of a segment's first message at which a log begins a new segment.")
    roll_jitter_ms: int = option("log.roll.jitter.ms log.roll.jitter.hours", Ms(0), 0,
        "Largest random time in ms by which `log.roll.ms` is shortened, so that not all logs roll "
        "at the same time.")
    index_max_bytes: int = option("log.index.size.max.bytes", Int32(12), 10 * 1024**2,
        "Size in bytes of a pre-allocated index; a full index begins a new segment.")
    index_interval_bytes: int = option("log.index.interval.bytes", Int32(0), 4096,
        "Bytes of log between two entries of the sparse indexes.")
    retention_ms: int = option(
        "log.retention.ms log.retention.minutes log.retention.hours", Ms(-1), _WEEK_MS,
        "Age in ms after which a segment may be deleted; -1 keeps for ever.")
    retention_bytes: int = option("log.retention.bytes log.retention.size", Int(-1), -1,
        "Bytes of log kept for each partition; -1 is without limit.")
    retention_policy: str = option("log.retention.policy", Str(empty=False), "time-and-size",
        "Deletion policy, a name of the entry point group `zkbroker.retention_policies`.")
    cleanup_policy: str = option("log.cleanup.policy", CleanupPolicy(), "delete",
        "delete: old segments are deleted. compact: the latest message of each key is kept, and "
        "messages need keys. Both may be given.")
    delete_retention_ms: int = option("log.cleaner.delete.retention.ms", Ms(0), 86_400_000,
        "Time in ms that a compacted log keeps messages without a value, and transaction markers, "
        "after the pass that first reached them.")
    min_cleanable_ratio: float = option("log.cleaner.min.cleanable.ratio", Float(0.0, 1.0), 0.5,
        "A log is compacted once more than this fraction of its bytes is not yet compacted.")
    min_compaction_lag_ms: int = option("log.cleaner.min.compaction.lag.ms", Ms(0), 0,
        "Age in ms below which a message is not compacted.")
    flush_messages: int = option(
        "log.flush.interval.messages log.flush.interval", Int(1), NEVER,
        "An acknowledgement waits until fewer messages than this are not flushed to disk.")
    flush_ms: int = option(
        "log.flush.interval.ms log.default.flush.interval.ms log.flush.scheduler.interval.ms "
        "log.default.flush.scheduler.interval.ms", Ms(1), NEVER,
        "Longest time in ms that a message stays unflushed.")
    max_message_bytes: int = option("message.max.bytes max.message.size", Int32(0), 1_000_012,
        "Largest message (with its offset and size fields) or batch that may be appended, in "
        "bytes.")
    file_delete_delay_ms: int = option(
        "log.segment.delete.delay.ms log.delete.delay.ms", Ms(0), 60_000,
        "Time in ms between the deletion of a segment and the removal of its files.")
    message_format_version: str = option("log.message.format.version", MessageFormat(), "producer",
        "Format in which messages are stored; `producer` keeps the format in which they were sent.")
    timestamp_type: str = option(
        "log.message.timestamp.type", Str(("CreateTime", "LogAppendTime")), "CreateTime",
        "Whether a message keeps its producer's timestamp or gets the broker's.")
    timestamp_difference_max_ms: int = option(
        "log.message.timestamp.difference.max.ms", Ms(0), NEVER,
        "Largest difference in ms between a CreateTime and the broker's clock.")
    compression_type: str = option(
        "compression.type",
        Str(("producer", "uncompressed", *CODEC_NAMES[1:])), "producer",
        "Codec with which messages are stored; `producer` keeps the codec with which they were "
        "sent.")
    message_downconversion_enable: bool = option("log.message.downconversion.enable", Bool(), True,
        "Whether messages are converted for readers that are older than their format; otherwise "
        "such a reader gets error 35 (UNSUPPORTED_VERSION).")
    preallocate: bool = option("log.preallocate", Bool(), False,
        "Whether the disk space of a new segment (`log.segment.bytes`) is reserved at once.")
    min_insync_replicas: int = option("min.insync.replicas", Int(1), 1,
        "Replicas that must be in sync for acks=-1 (`all`), the leader included. With fewer, such "
        "a request gets error 19 (NOT_ENOUGH_REPLICAS) and nothing of it is stored; requests with "
        "acks 0 and 1 are stored.")
    unclean_leader_election: bool = option("unclean.leader.election.enable", Bool(), False,
        "Whether a replica out of sync may become leader when no replica in sync is alive; "
        "acknowledged messages are lost then (true was the default up to 0.10).")
    # fmt: on
    leader_throttled_replicas: str = ""
    """Followers that the leader throttles, `*` or `partition:broker,…`; a topic-level setting."""
    follower_throttled_replicas: str = ""
    """Replicas that throttle themselves while they catch up; likewise."""

    TOPIC_FIELDS: ClassVar[Mapping[str, str]] = {
        "cleanup.policy": "cleanup_policy",
        "compression.type": "compression_type",
        "delete.retention.ms": "delete_retention_ms",
        "file.delete.delay.ms": "file_delete_delay_ms",
        "flush.messages": "flush_messages",
        "flush.ms": "flush_ms",
        "follower.replication.throttled.replicas": "follower_throttled_replicas",
        "index.interval.bytes": "index_interval_bytes",
        "leader.replication.throttled.replicas": "leader_throttled_replicas",
        "max.message.bytes": "max_message_bytes",
        "message.downconversion.enable": "message_downconversion_enable",
        "message.format.version": "message_format_version",
        "message.timestamp.difference.max.ms": "timestamp_difference_max_ms",
        "message.timestamp.type": "timestamp_type",
        "min.cleanable.dirty.ratio": "min_cleanable_ratio",
        "min.compaction.lag.ms": "min_compaction_lag_ms",
        "min.insync.replicas": "min_insync_replicas",
        "preallocate": "preallocate",
        "retention.bytes": "retention_bytes",
        "retention.ms": "retention_ms",
        "retention.policy": "retention_policy",
        "segment.bytes": "segment_bytes",
        "segment.index.bytes": "index_max_bytes",
        "segment.jitter.ms": "roll_jitter_ms",
        "segment.ms": "roll_ms",
        "unclean.leader.election.enable": "unclean_leader_election",
    }

    def __post_init__(self) -> None:
        validate(self)

    @property
    def pinned_magic(self) -> int | None:
        """The magic every message is converted to, None when stored as sent."""
        return magic_of_format(self.message_format_version)

    @property
    def compacted(self) -> bool:
        """Whether the topic asks for compaction, so that its offsets may have gaps."""
        return "compact" in self.cleanup_policy

    def with_topic_overrides(self, overrides: Mapping[str, str]) -> "LogConfig":
        """Return these settings with a topic's own on top.

        Args:
            overrides: topic-level names, such as `retention.ms`, to text.

        Raises:
            ConfigError: an unknown name or a value that is not allowed.
        """
        kinds = {
            "leader_throttled_replicas": ThrottledReplicas(),
            "follower_throttled_replicas": ThrottledReplicas(),
        } | {
            declared.name: declared_option.kind for declared, declared_option in options(LogConfig)
        }
        values: dict[str, Any] = {}
        for name, text in overrides.items():
            if name not in self.TOPIC_FIELDS:
                meant = nearest(name, self.TOPIC_FIELDS)
                raise ConfigError(f"{name} is not a configuration of a topic{meant}")
            target = self.TOPIC_FIELDS[name]
            values[target] = parse_value(name, text, kinds[target])
        return replace(self, **values)

    def topic_values(self) -> dict[str, str]:
        """Return every topic-level name with its effective value as text."""
        values = {name: _text(getattr(self, at)) for name, at in self.TOPIC_FIELDS.items()}
        return dict(sorted(values.items()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """Settings of all logs of a broker together."""

    # fmt: off
    log_dirs: tuple[str, ...] = option("log.dirs log.dir", StrList(1), ("/tmp/kafka-logs",),  # noqa: S108
        "Data directories, separated by commas; partitions are spread over them.")
    flush_scheduler_ms: int = option(
        "log.flush.scheduler.interval.ms log.default.flush.scheduler.interval.ms", Ms(1), NEVER,
        "Longest time in ms between two searches for logs to flush.")
    retention_check_ms: int = option(
        "log.retention.check.interval.ms log.cleanup.interval.mins", Ms(1), 300_000,
        "Time in ms between two searches for segments to delete.")
    recovery_checkpoint_ms: int = option("log.flush.offset.checkpoint.interval.ms", Ms(1), 60_000,
        "Time in ms between two writes of the recovery points.")
    open_segments: int = option("log.open.segments", Int(1), 256,
        "Most segments, besides the active ones, whose files stay open between reads.")
    cleaner_enable: bool = option("log.cleaner.enable", Bool(), True,
        "Whether logs are compacted; otherwise compacted topics only grow.")
    cleaner_threads: int = option("log.cleaner.threads", Int(1, 64), 1,
        "Tasks that compact logs, one log each at a time.")
    cleaner_backoff_ms: int = option("log.cleaner.backoff.ms", Ms(0), 15_000,
        "Time in ms between two searches for a log to compact, while no log needs it.")
    cleaner_dedupe_bytes: int = option("log.cleaner.dedupe.buffer.size", Int(1), 134_217_728,
        "Memory in bytes for the keys of logs that are compacted, for all tasks together: 24 bytes "
        "a key, and more than 1 MiB a task.")
    cleaner_load_factor: float = option("log.cleaner.io.buffer.load.factor", Float(0.01, 1.0), 0.9,
        "Fraction of that memory that may be used; keys that do not fit are left for the next "
        "pass.")
    cleaner_io_bytes: int = option("log.cleaner.io.buffer.size", Int32(1), 524_288,
        "Read buffers in bytes, of all tasks together; more where a message is larger.")
    cleaner_bytes_per_s: float = option(
        "log.cleaner.io.max.bytes.per.second", Float(1.0), 1.7976931348623157e308,
        "Bytes a second that compaction may read and write, all tasks together.")
    producer_id_expiration_ms: int = option("transactional.id.expiration.ms", Ms(1), 604_800_000,
        "Time in ms after which an unused transactional id, and the state of a silent idempotent "
        "producer, expires.")
    topic_segment_bytes: Mapping[str, int] = option(
        "log.segment.bytes.per.topic topic.log.file.size", StrMap(), {},
        "Segment sizes of single topics, `topic:bytes` (0.7 and 0.8.0).")
    topic_roll_hours: Mapping[str, int] = option(
        "log.roll.hours.per.topic topic.log.roll.hours", StrMap(), {},
        "Roll ages of single topics, `topic:hours` (0.7 and 0.8.0).")
    topic_retention_hours: Mapping[str, int] = option(
        "log.retention.hours.per.topic topic.log.retention.hours", StrMap(), {},
        "Retention times of single topics, `topic:hours` (0.7 and 0.8.0).")
    topic_retention_bytes: Mapping[str, int] = option(
        "log.retention.bytes.per.topic topic.log.retention.size", StrMap(), {},
        "Retention sizes of single topics, `topic:bytes` (0.7 and 0.8.0).")
    topic_flush_ms: Mapping[str, int] = option(
        "log.flush.interval.ms.per.topic topic.flush.intervals.ms", StrMap(), {},
        "Flush intervals of single topics, `topic:ms` (0.7 and 0.8.0).")
    # fmt: on

    IGNORED: ClassVar[Mapping[str, str]] = {
        "num.recovery.threads.per.data.dir": "each data directory is recovered by one task",
        "log.flush.start.offset.checkpoint.interval.ms": "start offsets are written as they change",
    }

    def __post_init__(self) -> None:
        validate(self)
        if self.cleaner_enable and self.cleaner_dedupe_bytes // self.cleaner_threads <= 1 << 20:
            raise ConfigError(
                f"log.cleaner.dedupe.buffer.size={self.cleaner_dedupe_bytes} is too small for "
                f"log.cleaner.threads={self.cleaner_threads}: give more than 1048576 for each"
            )

    def topic_overrides(self, topic: str) -> dict[str, str]:
        """Return a topic's settings in the old per-topic maps, under topic-level names."""
        found: dict[str, str] = {}
        for name, by_topic, factor in (
            ("segment.bytes", self.topic_segment_bytes, 1),
            ("segment.ms", self.topic_roll_hours, _HOUR_MS),
            ("retention.ms", self.topic_retention_hours, _HOUR_MS),
            ("retention.bytes", self.topic_retention_bytes, 1),
            ("flush.ms", self.topic_flush_ms, 1),
        ):
            if topic in by_topic:
                found[name] = str(by_topic[topic] * factor)
        return found


LOG_KEYS = keys(LogConfig) | keys(LogManagerConfig) | frozenset(LogManagerConfig.IGNORED)
"""Every key of a properties file that this module reads or knows to be without effect."""
