"""A producer for a 0.7 cluster: its settings, and the parts made from them.

Invariant: it implements `producer.generation.ProducerGeneration`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from zkbroker.client import Cluster
from zkbroker.client.source import ClusterSource
from zkbroker.config.generation import GENERATION, without_generation
from zkbroker.config.refused_client_keys import refuse_unsupported
from zkbroker.config.schema import from_properties
from zkbroker.config.zookeeper_security import take_zookeeper_security
from zkbroker.legacy07.channel import Channel07
from zkbroker.legacy07.cluster import FixedLeaders07
from zkbroker.legacy07.partitioner import Partitioner07
from zkbroker.legacy07.producer_options import ProducerOptions07
from zkbroker.legacy07.sources import ListedSource07, ProducerSource07
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.producer.partitioners import RandomPartitioner
from zkbroker.runtime import Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig07(ProducerOptions07):
    """Settings of a producer for a 0.7 cluster.

    A 0.7 broker never answers a produce. Without `request.required.acks` a message counts as sent
    once it is written to the connection, and is lost if that then breaks.
    """

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, warn: Callable[[str], None] | None = None
    ) -> "ProducerConfig07":
        """Build the settings from the properties of a 0.7 producer.

        Raises:
            ConfigError: a value or a combination is not allowed.
        """
        given = without_generation(refuse_unsupported(properties))
        zookeeper, given = take_zookeeper_security(given, warn=warn)
        others = {"zookeeper": zookeeper}
        return from_properties(cls, given, warn=warn, also_known=(GENERATION,), others=others)

    def make_cluster(self, runtime: Runtime) -> Cluster:
        source: ClusterSource = ListedSource07(self.brokers())
        if self.zookeeper_connect:
            source = ProducerSource07(
                self.zookeeper_connect,
                session_timeout_ms=self.zookeeper_session_timeout_ms,
                connect_timeout_ms=self.zookeeper_connect_timeout_ms,
                security=self.zookeeper,
            )
        return FixedLeaders07(source, runtime=runtime)

    def make_partitioner(self) -> object:
        if not self.zookeeper_connect:
            return RandomPartitioner()
        return self.named_partitioner or Partitioner07()

    def channels(self) -> Callable[..., BrokerChannel]:
        return partial(Channel07, settings=self)
