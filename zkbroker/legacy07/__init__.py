"""Kafka 0.7: a generation of clusters that plugs into clients, mirrors and commands.

Positions are bytes; partitions are named `broker-number`. No lower layer imports this package:
`zkbroker.config.generation` finds it by name, and its settings make the matching parts.
"""

from zkbroker.legacy07.cluster import Cluster07
from zkbroker.legacy07.consumer_config import ConsumerConfig07
from zkbroker.legacy07.decode import decode_chunk07
from zkbroker.legacy07.producer_config import ProducerConfig07
from zkbroker.legacy07.simple import SimpleConsumer07
from zkbroker.types import Partition07

__all__ = [
    "Cluster07",
    "ConsumerConfig07",
    "Partition07",
    "ProducerConfig07",
    "SimpleConsumer07",
    "decode_chunk07",
]
