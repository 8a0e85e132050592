"""Consumers: the simple consumer of one broker, and streams for members of a group."""

from zkbroker.consumer.assigned import AssignedConsumer
from zkbroker.consumer.connector import Consumer, ConsumerConnector
from zkbroker.consumer.filters import Blacklist, TopicFilter, Whitelist
from zkbroker.consumer.group import GroupConsumer
from zkbroker.consumer.group_offsets import CommitFailed, Committed
from zkbroker.consumer.listener import RebalanceListener
from zkbroker.consumer.lookup import EARLIEST_TIME, LATEST_TIME
from zkbroker.consumer.message_set import FetchRequest, MessageSet
from zkbroker.consumer.messages import (
    ConsumerClosed,
    ConsumerTimeout,
    Decoder,
    MessageAndMetadata,
    NotOwned,
    string_decoder,
)
from zkbroker.consumer.resolve import resolve_offsets
from zkbroker.consumer.simple import SimpleConsumer
from zkbroker.consumer.stream import KafkaStream

__all__ = [
    "GroupConsumer",
    "RebalanceListener",
    "Committed",
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
    "NotOwned",
    "AssignedConsumer",
    "resolve_offsets",
    "Decoder",
    "string_decoder",
    "TopicFilter",
    "Whitelist",
    "Blacklist",
]
