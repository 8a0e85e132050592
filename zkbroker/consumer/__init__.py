"""Consumers: the simple consumer of one broker, and streams for members of a group."""

from zkbroker.client.group_offsets import Committed
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.consumer.assigned import AssignedConsumer
from zkbroker.consumer.fetching.messages import (
    ConsumerClosed,
    ConsumerTimeout,
    Decoder,
    ForkedConsumer,
    MessageAndMetadata,
    NotOwned,
    string_decoder,
)
from zkbroker.consumer.group.assignors import (
    Assignor,
    ClusterPartitions,
    MemberAssignment,
    MemberSubscription,
    SimpleAssignor,
)
from zkbroker.consumer.group.commits import CommitFailed
from zkbroker.consumer.group.consumer import GroupConsumer
from zkbroker.consumer.group.listener import RebalanceListener
from zkbroker.consumer.message_set import FetchRequest, MessageSet
from zkbroker.consumer.simple import SimpleConsumer
from zkbroker.consumer.streams.connector import Consumer, ConsumerConnector
from zkbroker.consumer.streams.filters import Blacklist, TopicFilter, Whitelist
from zkbroker.consumer.streams.stream import KafkaStream

__all__ = [
    "GroupConsumer",
    "RebalanceListener",
    "Committed",
    "Assignor",
    "SimpleAssignor",
    "ClusterPartitions",
    "MemberSubscription",
    "MemberAssignment",
    "CommitFailed",
    "SimpleConsumer",
    "FetchRequest",
    "MessageSet",
    "EARLIEST_TIME",
    "LATEST_TIME",
    "Consumer",
    "ConsumerConnector",
    "KafkaStream",
    "MessageAndMetadata",
    "ConsumerTimeout",
    "ConsumerClosed",
    "ForkedConsumer",
    "NotOwned",
    "AssignedConsumer",
    "resolve_offsets",
    "Decoder",
    "string_decoder",
    "TopicFilter",
    "Whitelist",
    "Blacklist",
]
