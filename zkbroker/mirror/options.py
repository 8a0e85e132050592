"""How a mirror copies: the settings that are its own.

Invariant: a setting is one option with its names, type, default and meaning.
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
        "queue.size": "window.bytes bounds what is under way",
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
        "Time between two commits of how far the sources were mirrored, in ms. With exactly.once "
        "also how long messages are not seen; 60000 then means 1000.")
    abort_on_send_failure: bool = option("abort.on.send.failure", Bool(), True,
        "Whether the mirror ends, without a commit, over a message that the target refuses. "
        "Otherwise it is counted as dropped, and the mirror goes on behind it.")
    message_handler: str = option("message.handler", Str(), "",
        "Import path (package.module:Name) of what is called with each message and returns the "
        "messages to send in its place. Everything is decoded then.")
    message_handler_args: str = option("message.handler.args", Str(), "",
        "One text given to its constructor.")
    rebalance_listener: str = option("consumer.rebalance.listener rebalance.listener", Str(), "",
        "Import path of a rebalance listener of the consumers.")
    rebalance_listener_args: str = option("rebalance.listener.args", Str(), "",
        "One text for its constructor.")
    identity_partitions: bool = option("identity.partitions", Bool(), False,
        "Every message keeps the number of its partition: topics are created and grown with the "
        "count and the settings of the source. Otherwise numbers are kept where the target's topic "
        "has as many partitions, and keys decide where it has not.")
    topic_prefix: str = option("topic.prefix", Str(), "",
        "Put before the names of topics in the target. {source} is the name of the source.")
    target_name: str = option("target.name", Str(), "",
        "Name of the target cluster. With names of the sources and without a prefix every message "
        "gets a header that names its path, and none is sent where it has been.")
    follow_settings: bool = option("follow.topic.settings", Bool(), True,
        "With identity.partitions: whether changes of a topic's settings and of its number of "
        "partitions are made in the target too.")
    topics_interval_ms: int = option("topics.interval.ms", Ms(100), 30_000,
        "Time between two looks at the settings of the topics, in ms.")
    replication_factor: int = option("replication.factor", Int(0, 32_767), 0,
        "Replicas of topics created with identity.partitions; 0: as many as in the source, but no "
        "more than the target has brokers.")
    window_bytes: int = option("window.bytes", Int(1024), 32 * 1024 * 1024,
        "Bytes of one stream that may be fetched and not yet acknowledged by the target; beyond "
        "them it waits.")
    flush_timeout_ms: int = option("flush.timeout.ms", Ms(1), 30_000,
        "How long to wait for the target's answers before partitions are given away and at the "
        "end, in ms; what is not answered then is mirrored again.")
    start_timeout_ms: int = option("start.timeout.ms", Ms(0), 60_000,
        "How long the start tries again while a cluster cannot be reached, in ms.")
    join_bytes: int = option("join.batches.bytes", Int(0, 2**30), 16 * 1024,
        "Stored batches smaller than this that follow each other are joined to larger ones; 0: "
        "never.")
    offset_syncs_topic: str = option("offset.syncs.topic", Str(), "mirror-offset-syncs",
        "Topic of the target in which is kept which offset there belongs to which of the source, "
        "with identity.partitions; empty: none, and `mirror offsets` cannot tell.")
    drop_headers: bool = option("drop.headers", Bool(), False,
        "Whether headers are left out for a target whose format has none (before 0.11); otherwise "
        "such a message is one that the target refuses.")
    exactly_once: bool = option("exactly.once", Bool(), False,
        "Whether messages and the place in the source are stored in one transaction of the target, "
        "which has to be 0.11 or later. Each partition of a source has a producer then.")
    exactly_once_id: str = option("exactly.once.id", Str(), "",
        "What a source's place in the target and its transactional ids begin with, the same for "
        "all mirrors that share the work; `mirror-GROUP-SOURCE` without it. With another one a "
        "mirror starts over.")
    exactly_once_topic: str = option("exactly.once.topic", Str(), "mirror-positions",
        "Topic of the target in which the places are kept with exactly.once.")
    # fmt: on
