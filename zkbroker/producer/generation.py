"""What a producer needs of a cluster of another generation of Kafka than 0.8 and later.

Invariant: queues, batches, retries and outcomes are one code for all generations; what differs is
how brokers are found, which partition a message goes to, and how a set reaches its broker.
"""

from collections.abc import Callable
from typing import Protocol

from zkbroker.client import Cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.runtime import Runtime


class ProducerGeneration(Protocol):
    """The settings of a producer for such a cluster, which make the parts that fit it."""

    def producer(self) -> ProducerConfig:
        """Return what all generations of producers share.

        Raises:
            ConfigError: a value is not allowed.
        """

    def make_cluster(self, runtime: Runtime) -> Cluster:
        """Return the cluster; not started."""

    def make_partitioner(self) -> object:
        """Return the partitioner, as an object or a name; None for that of `producer()`."""

    def channels(self) -> Callable[..., BrokerChannel]:
        """Return what makes the way to a broker, with the arguments of `BrokerChannel`."""
