"""Settings and limits of the group coordinator; its topic is `__consumer_offsets`."""

from dataclasses import dataclass

from zkbroker.codecs import Codec
from zkbroker.config.schema import Int, Int32, Ms, option

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Groups and their offsets."""

    # fmt: off
    offset_metadata_max_bytes: int = option("offset.metadata.max.bytes", Int32(0), 4096,
        "Largest metadata string that a consumer may commit with an offset.")
    offsets_retention_ms: int = option("offsets.retention.minutes", Ms(1), 10_080 * _MINUTE_MS,
        "How long committed offsets of a group without members are kept (1440 minutes, counted "
        "from each commit, up to 1.1).")
    offsets_retention_check_ms: int = option("offsets.retention.check.interval.ms", Ms(1), 600_000,
        "Time in ms between two searches for expired offsets.")
    offsets_topic_partitions: int = option("offsets.topic.num.partitions", Int32(1), 50,
        "Partitions of `__consumer_offsets`, fixed when the topic is created.")
    offsets_topic_replication_factor: int = option(
        "offsets.topic.replication.factor", Int(1, 32767), 3,
        "Replicas of `__consumer_offsets`, fixed when the topic is created. With fewer brokers at "
        "that time it gets as many as there are, with a warning.")
    offsets_topic_segment_bytes: int = option(
        "offsets.topic.segment.bytes", Int32(14), 100 * 1024**2,
        "Segment size of `__consumer_offsets`.")
    offsets_topic_codec: int = option("offsets.topic.compression.codec", Int(0, max(Codec)), 0,
        "Compression codec of `__consumer_offsets`, by number.")
    offsets_commit_timeout_ms: int = option("offsets.commit.timeout.ms", Ms(1), 5000,
        "Longest time in ms that a commit of offsets, or a change of a transaction, waits for its "
        "append.")
    group_min_session_timeout_ms: int = option("group.min.session.timeout.ms", Ms(1), 6000,
        "Shortest session time-out that a group member may ask for.")
    group_max_session_timeout_ms: int = option("group.max.session.timeout.ms", Ms(1), 1_800_000,
        "Longest session time-out that a group member may ask for.")
    group_initial_rebalance_delay_ms: int = option("group.initial.rebalance.delay.ms", Ms(0), 3000,
        "Time in ms that an empty group waits for more members after its first one joined.")
    group_max_size: int = option("group.max.size", Int32(1), _INT32_MAX,
        "Most members of one group.")
    group_metadata_max_bytes: int = option("group.metadata.max.bytes", Int(1), 256 * 1024**2,
        "Memory in bytes for all groups, with the metadata and assignments of their members; a "
        "member that does not fit is refused with error 15, and retries.")
    # fmt: on
