"""The plug-in of Kafka 0.7: what `kafka.generation=0.7` stands for in clients and mirrors."""

from collections.abc import Mapping

from zkbroker.errors import ConfigError
from zkbroker.legacy07.consumer_config import ConsumerConfig07
from zkbroker.legacy07.mirror import SourceCluster07, Target07
from zkbroker.legacy07.producer_config import ProducerConfig07
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.generations import Generation
from zkbroker.mirror.source_cluster import SourceCluster
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.mirror.target import Target
from zkbroker.runtime import Runtime


class Kafka07:
    """Kafka 0.7; fits `mirror.generations.Generation`."""

    name = "0.7"
    why_no_identity = (
        "partitions of Kafka 0.7 are numbered on each broker, and its brokers make them"
    )
    why_no_transactions = "Kafka 0.7 has no transactions"

    def consumer_config(self, properties: Mapping[str, str]) -> ConsumerConfig07:
        """Return the settings of a connector for a mirror.

        Raises:
            ConfigError: a value is not allowed, or something is missing.
        """
        if "bootstrap.servers" in properties:
            raise ConfigError(
                "bootstrap.servers: a cluster of Kafka 0.7 is found by its ZooKeeper: give "
                "zk.connect"
            )
        given = {key: value for key, value in properties.items() if key != "isolation.level"}
        if given.get("shallowiterator.enable", "").strip().lower() == "true":
            # Asked for to keep what is compressed as it is: a mirror keeps the codec anyway.
            del given["shallowiterator.enable"]
        return ConsumerConfig07.from_properties(given)

    def producer_config(self, properties: Mapping[str, str]) -> ProducerConfig07:
        """Return the settings of a producer for a mirror.

        Raises:
            ConfigError: a value is not allowed, or something is missing.
        """
        for key in ("bootstrap.servers", "metadata.broker.list"):
            if key in properties:
                raise ConfigError(
                    f"{key}: a cluster of Kafka 0.7 is found by its ZooKeeper, or by "
                    "id:host:port,...: give zk.connect or broker.list"
                )
        return ProducerConfig07.from_properties(properties)

    def open_source(self, config: SourceConfig, runtime: Runtime) -> SourceCluster:
        """Connect to a source.

        Raises:
            ZkbrokerError: it cannot be reached.
        """
        return SourceCluster07(config, runtime)

    def open_target(self, config: MirrorConfig, runtime: Runtime) -> Target:
        """Connect to the target.

        Raises:
            ZkbrokerError: it cannot be reached.
        """
        return Target07(config, runtime)


GENERATION: Generation = Kafka07()
