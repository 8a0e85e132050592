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
from zkbroker.producer.errors import (
    BrokersUnavailable,
    Cancelled,
    DeliveryTimedOut,
    Dropped,
    EncodingFailed,
    ForkedProducer,
    HandlerFailed,
    MessageTooLarge,
    ProducerClosed,
    QueueFull,
    SendFailed,
    TopicUnavailable,
    Undelivered,
)
from zkbroker.producer.handlers import CallbackHandler, EventHandler, Interceptor
from zkbroker.producer.logging_handler import ZkbrokerHandler
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
from zkbroker.producer.producer import Producer
from zkbroker.producer.run import SendFuture

__all__ = [
    "Producer",
    "ZkbrokerHandler",
    "SendFuture",
    "CallbackHandler",
    "EventHandler",
    "Interceptor",
    "BrokersUnavailable",
    "Cancelled",
    "DeliveryTimedOut",
    "Dropped",
    "EncodingFailed",
    "ForkedProducer",
    "HandlerFailed",
    "MessageTooLarge",
    "ProducerClosed",
    "QueueFull",
    "SendFailed",
    "TopicUnavailable",
    "Undelivered",
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
