"""The parts of a producer for a cluster of an older generation of Kafka than 0.8.

Invariant: all generations share the code of queues, batches, retries and outcomes; they differ in
finding brokers, in choosing partitions, and in sending a batch to its broker.
"""

from collections.abc import Callable
from typing import Protocol

from zkbroker.client import Cluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.runtime import Runtime


class ProducerGeneration(Protocol):
    """The settings of a producer for such a cluster; they make the parts that fit it."""

    def producer(self) -> ProducerConfig:
        """Return the settings that producers of all generations share.

        Raises:
            ConfigError: a value is not allowed.
        """

    def make_cluster(self, runtime: Runtime) -> Cluster:
        """Return the cluster; not started."""

    def make_partitioner(self) -> object:
        """Return the partitioner, as an object or a name; None for that of `producer()`."""

    def channels(self) -> Callable[..., BrokerChannel]:
        """Return the class of channels to brokers, called with the arguments of `BrokerChannel`."""
