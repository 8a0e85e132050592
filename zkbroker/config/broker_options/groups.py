"""What the coordinator of groups keeps and allows; its topic is `__consumer_offsets`."""

from dataclasses import dataclass

from zkbroker.config.schema import Int, option

_INT32_MAX = 2**31 - 1
_MINUTE_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Groups and their offsets."""

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
