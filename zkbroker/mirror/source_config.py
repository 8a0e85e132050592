"""The settings of one source: properties of its consumer, of any generation.

Invariant: the consumer commits nothing by itself, and begins at the start of a log that its group
never read unless the settings say otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.generation import is_07, without_generation
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.legacy07_consumer import ConsumerConfig07
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.errors import ConfigError

CODING = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
"""Properties of applications; a mirror passes bytes on and leaves them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """A cluster that is mirrored.

    Args:
        properties: of its consumer, as a property file of either generation of consumers has them.
        name: what the path of a message calls it; empty where nobody asked for a path.
        label: what logs and measures call it.
    """

    properties: Mapping[str, str]
    name: str = ""
    label: str = "source"

    def __post_init__(self) -> None:
        if self.legacy07 and self.by_coordinator:
            raise ConfigError(
                "bootstrap.servers: a cluster of Kafka 0.7 is found by its ZooKeeper: give "
                "zk.connect"
            )
        if self.by_coordinator:
            self.group_consumer(0)
        else:
            self.connector(0)

    @property
    def legacy07(self) -> bool:
        """Whether it is a cluster of Kafka 0.7."""
        return is_07(self.properties)

    @property
    def by_coordinator(self) -> bool:
        """Whether its group is kept by a coordinator, not in ZooKeeper."""
        return "bootstrap.servers" in self.properties

    @property
    def zookeeper(self) -> str:
        """Its ZooKeeper, empty where none is named."""
        return self.properties.get("zookeeper.connect") or self.properties.get("zk.connect", "")

    def _properties(self, reset: str, auto_commit: str) -> dict[str, str]:
        given = {
            key: value
            for key, value in without_generation(self.properties).items()
            if key not in CODING
        }
        for key in ("autocommit.enable", "auto.commit.enable", "enable.auto.commit"):
            given.pop(key, None)
        given[auto_commit] = "false"
        if not any(key in given for key in ("auto.offset.reset", "autooffset.reset")):
            given["auto.offset.reset"] = reset
        given.setdefault("isolation.level", READ_COMMITTED)
        return given

    def connector(self, number: int) -> ConsumerConfig | ConsumerConfig07:
        """Return the settings of the consumer of a stream, for a group in ZooKeeper."""
        given = self._properties("smallest", "auto.commit.enable")
        for key in ("consumer.id", "consumerid"):
            if number and key in given:
                given[key] += f"-{number}"
        if self.legacy07:
            given.pop("isolation.level", None)
            if given.get("shallowiterator.enable", "").strip().lower() == "true":
                # Asked for to keep what is compressed as it is: a mirror keeps the codec anyway.
                del given["shallowiterator.enable"]
            return ConsumerConfig07.from_properties(given)
        return ConsumerConfig.from_properties(given)

    def group_consumer(self, number: int) -> GroupConsumerConfig:
        """Return the settings of the consumer of a stream, for a coordinator's group."""
        given = self._properties("earliest", "enable.auto.commit")
        for key in ("zookeeper.connect", "zk.connect", "consumer.timeout.ms"):
            given.pop(key, None)
        # New topics and partitions are to be mirrored soon.
        given.setdefault("metadata.max.age.ms", "30000")
        if not given.get("group.id"):
            raise ConfigError("group.id is required: the mirror's place is kept under it")
        return GroupConsumerConfig.from_properties(given)

    @property
    def group_id(self) -> str:
        """The group under which the mirror's place is kept."""
        return self.properties.get("group.id") or self.properties.get("groupid", "")
