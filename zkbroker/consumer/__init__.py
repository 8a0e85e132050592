"""Consumers: the simple consumer of one broker, and streams for members of a group."""

from zkbroker.consumer.filters import Blacklist, TopicFilter, Whitelist
from zkbroker.consumer.lookup import EARLIEST_TIME, LATEST_TIME
from zkbroker.consumer.messages import (
    ConsumerClosed,
    ConsumerTimeout,
    Decoder,
    MessageAndMetadata,
    string_decoder,
)
from zkbroker.consumer.simple import FetchRequest, MessageSet, SimpleConsumer
from zkbroker.consumer.stream import KafkaStream

__all__ = [
    "SimpleConsumer",
    "FetchRequest",
    "MessageSet",
    "EARLIEST_TIME",
    "LATEST_TIME",
    "KafkaStream",
    "MessageAndMetadata",
    "ConsumerTimeout",
    "ConsumerClosed",
    "Decoder",
    "string_decoder",
    "TopicFilter",
    "Whitelist",
    "Blacklist",
]
