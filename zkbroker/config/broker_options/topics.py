"""Defaults of new topics, and whether topics may be deleted."""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, Int32, StrMap, option


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    """Topics of a broker."""

    # fmt: off
    num_partitions: int = option("num.partitions", Int32(1), 1,
        "Partitions of a topic that is created without their number.")
    topic_partitions: Mapping[str, int] = option("topic.partition.count.map", StrMap(), {},
        "Partitions of single topics, `topic:number` (0.7).")
    default_replication_factor: int = option("default.replication.factor", Int(1, 32767), 1,
        "Replicas of a topic that is created without their number.")
    auto_create_topics: bool = option("auto.create.topics.enable", Bool(), True,
        "Whether a Metadata request for an unknown topic creates it.")
    delete_topics: bool = option("delete.topic.enable", Bool(), True,
        "Whether topics can be deleted (false was the default up to 0.11).")
    # fmt: on
