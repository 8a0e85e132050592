"""What topics are created with where nobody says otherwise, and whether they may be deleted."""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, StrMap, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    """Topics of a broker."""

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
