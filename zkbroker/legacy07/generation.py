"""The plug-in of Kafka 0.7, for mirrors, commands and pages with `kafka.generation=0.7`.

Invariant: every difference from newer clusters is decided in this package, never by its callers.
"""

from collections.abc import Callable, Mapping

from zkbroker.errors import ConfigError
from zkbroker.legacy07.console_readers import Observer07
from zkbroker.legacy07.consumer_config import ConsumerConfig07
from zkbroker.legacy07.mirror import SourceCluster07, Target07
from zkbroker.legacy07.producer_config import ProducerConfig07
from zkbroker.legacy07.reading import read_partitions
from zkbroker.mirror.generations import MirrorGeneration


class Kafka07:
    """Kafka 0.7 for mirrors and commands: their `MirrorGeneration` and `CommandGeneration`."""

    name = "0.7"
    why_no_identity = (
        "partitions of Kafka 0.7 are numbered on each broker, and created by its brokers"
    )
    why_no_transactions = "Kafka 0.7 has no transactions"
    has_headers = False
    offset_form = "a position in bytes that lies between two messages"

    def source_settings(self, properties: Mapping[str, str]) -> ConsumerConfig07:
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
            # Used to keep compressed messages unchanged: a mirror keeps the codec anyway.
            del given["shallowiterator.enable"]
        return ConsumerConfig07.from_properties(given)

    def target_settings(self, properties: Mapping[str, str]) -> ProducerConfig07:
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

    open_source = SourceCluster07
    open_target = Target07

    # -- for commands

    def consumer_config(
        self, properties: Mapping[str, str], warn: Callable[[str], None]
    ) -> ConsumerConfig07:
        return ConsumerConfig07.from_properties(properties, warn=warn)

    def command_producer(
        self,
        properties: Mapping[str, str],
        given: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> ProducerConfig07:
        """Return the settings of a producer of lines: it blocks rather than fails."""
        found = {"queue.enqueueTimeout.ms": "-1", **properties}
        if "metadata.broker.list" in found:
            found["broker.list"] = _with_ids(found.pop("metadata.broker.list"))
        if given.keys() & {"zk.connect", "broker.list"}:
            found.pop("zookeeper.connect", None)
        if "queue.time" in given:
            del found["queue.buffering.max.ms"]
        if not given.keys() & {"request.required.acks", "acks"}:
            found.pop("request.required.acks", None)
        return ProducerConfig07.from_properties(found, warn=warn)

    read_partitions = staticmethod(read_partitions)

    # -- for the console

    observe = Observer07


def _with_ids(bootstrap: str) -> str:
    """Return brokers in the form of 0.7, `id:host:port`; those without an id are numbered."""
    addresses = [each.strip() for each in bootstrap.split(",") if each.strip()]
    if all(each.count(":") == 1 for each in addresses):
        return ",".join(f"{number}:{each}" for number, each in enumerate(addresses))
    return ",".join(addresses)


GENERATION: MirrorGeneration = Kafka07()
