"""Producers: one class, sync and async, on threads and on greenlets."""

from zkbroker.producer.encoders import (
    DefaultEncoder,
    Encoder,
    IntegerEncoder,
    JsonEncoder,
    LongEncoder,
    NullEncoder,
    StringEncoder,
)
from zkbroker.producer.message import KeyedMessage, RecordMetadata
from zkbroker.producer.partitioners import (
    DefaultPartitioner,
    LegacyHashPartitioner,
    LegacyMaskPartitioner,
    Partitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)

__all__ = [
    "KeyedMessage",
    "RecordMetadata",
    "Encoder",
    "DefaultEncoder",
    "StringEncoder",
    "JsonEncoder",
    "IntegerEncoder",
    "LongEncoder",
    "NullEncoder",
    "Partitioner",
    "DefaultPartitioner",
    "LegacyHashPartitioner",
    "LegacyMaskPartitioner",
    "RandomPartitioner",
    "RoundRobinPartitioner",
    "StickyPartitioner",
]
