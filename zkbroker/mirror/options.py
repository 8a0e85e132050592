"""The mirror's own settings.

Invariant: a setting is one option with its names, type, default and description.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from zkbroker.config.schema import Bool, Int, Ms, Str, option

COMMIT_INTERVAL_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """How to mirror."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "num.producers": "one producer sends to all brokers at once",
        "queue.size": "window.bytes bounds the bytes in flight",
        "new.consumer": "a consumer with bootstrap.servers is a new one",
        "new.producer": "there is one producer",
    }

    # fmt: off
    whitelist: str = option("whitelist mirror.topics.whitelist", Str(), "",
        "Topics to mirror: a Java regular expression, or names separated by commas.")
    blacklist: str = option("blacklist mirror.topics.blacklist", Str(), "",
        "Topics not to mirror, in the same form; all others are mirrored.")
    num_streams: int = option("num.streams mirror.consumer.numthreads", Int(1, 64), 1,
        "Consumers of each source that share its partitions.")
    commit_interval_ms: int = option("offset.commit.interval.ms", Ms(1), COMMIT_INTERVAL_MS,
        "Time between two commits of the sources' positions, in ms. With exactly.once "
        "messages stay invisible for that long; 60000 then means 1000.")
    abort_on_send_failure: bool = option("abort.on.send.failure", Bool(), True,
        "Whether the mirror ends, without a commit, if the target refuses a message. "
        "Otherwise the message is counted as dropped, and the mirror goes on.")
    message_handler: str = option("message.handler", Str(), "",
        "Import path (package.module:Name) of a handler that gets each message and returns the "
        "messages to send in its place. All messages are then decoded.")
    message_handler_args: str = option("message.handler.args", Str(), "",
        "One text for its constructor.")
    rebalance_listener: str = option("consumer.rebalance.listener rebalance.listener", Str(), "",
        "Import path of a rebalance listener of the consumers.")
    rebalance_listener_args: str = option("rebalance.listener.args", Str(), "",
        "One text for its constructor.")
    identity_partitions: bool = option("identity.partitions", Bool(), False,
        "Every message keeps its partition number: topics are created and grown with the "
        "count and the settings of the source. Otherwise numbers are kept if the target's topic "
        "has as many partitions, and keys decide if not.")
    topic_prefix: str = option("topic.prefix", Str(), "",
        "Prefix of topic names in the target. {source} is the name of the source.")
    target_name: str = option("target.name", Str(), "",
        "Name of the target cluster. With names of the sources and without a prefix every message "
        "gets a header with its path, and none is sent to a cluster that it was in.")
    follow_settings: bool = option("follow.topic.settings", Bool(), True,
        "With identity.partitions: whether changes of a topic's settings and of its number of "
        "partitions are made in the target too.")
    topics_interval_ms: int = option("topics.interval.ms", Ms(100), 30_000,
        "Time between two checks of the topics' settings, in ms.")
    replication_factor: int = option("replication.factor", Int(0, 32_767), 0,
        "Replicas of topics created with identity.partitions; 0: as many as in the source, but no "
        "more than the target has brokers.")
    window_bytes: int = option("window.bytes", Int(1024), 32 * 1024 * 1024,
        "Most bytes of one stream that are fetched and not yet acknowledged by the target; above "
        "that the stream waits.")
    flush_timeout_ms: int = option("flush.timeout.ms", Ms(1), 30_000,
        "How long to wait for the target's answers before partitions are given away, and at the "
        "end, in ms; messages without an answer are mirrored again.")
    start_timeout_ms: int = option("start.timeout.ms", Ms(0), 60_000,
        "How long the start retries while a cluster cannot be reached, in ms.")
    join_bytes: int = option("join.batches.bytes", Int(0, 2**30), 16 * 1024,
        "Consecutive stored batches smaller than this are joined into larger ones; 0: "
        "never.")
    offset_syncs_topic: str = option("offset.syncs.topic", Str(), "mirror-offset-syncs",
        "Topic of the target for the pairs of source and target offsets, "
        "with identity.partitions; empty: none, and `mirror offsets` does not work.")
    drop_headers: bool = option("drop.headers", Bool(), False,
        "Whether headers are left out for a target whose format has none (before 0.11); otherwise "
        "the target refuses such a message.")
    exactly_once: bool = option("exactly.once", Bool(), False,
        "Whether messages and source positions are stored in one transaction of the target, "
        "which must be 0.11 or later. Each partition of a source then has its own producer.")
    exactly_once_id: str = option("exactly.once.id", Str(), "",
        "Prefix of a source's keys in the target and of its transactional ids, the same for "
        "all mirrors that share the work; by default `mirror-GROUP-SOURCE`. With another one a "
        "mirror starts over.")
    exactly_once_topic: str = option("exactly.once.topic", Str(), "mirror-positions",
        "Topic of the target for the source positions with exactly.once.")
    # fmt: on
