"""Reading from brokers of Kafka 0.7: positions in bytes, no groups of newer generations."""

from zkbroker.consumer.legacy07.cluster import Cluster07
from zkbroker.consumer.legacy07.decode import decode_chunk07
from zkbroker.consumer.legacy07.simple import SimpleConsumer07
from zkbroker.types import Partition07

__all__ = ["Cluster07", "Partition07", "SimpleConsumer07", "decode_chunk07"]
