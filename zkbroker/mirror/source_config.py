"""The settings of one source: properties of its consumer, of any generation.

Invariant: the consumer commits nothing by itself; without a commit it begins at the start of a log,
    unless the settings say otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.generation import find_generation, without_generation
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.security import ClientSecurity
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.consumer.streams.generation import ConsumerGeneration
from zkbroker.errors import ConfigError
from zkbroker.producer.generation import ProducerGeneration

CODING = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
"""Properties of applications; a mirror passes bytes on and ignores them."""


class GenerationSettings(Protocol):
    """A generation other than 0.8 and later, for the settings of a mirror.

    Attributes:
        name: of the generation.
        why_no_identity: why its topics cannot have the partitions of other topics.
        why_no_transactions: why it cannot be mirrored to exactly once.
    """

    name: str
    why_no_identity: str
    why_no_transactions: str

    def source_settings(self, properties: Mapping[str, str]) -> ConsumerGeneration:
        """Return the settings of a connector; raise `ConfigError` where they do not fit."""

    def target_settings(self, properties: Mapping[str, str]) -> ProducerGeneration:
        """Return the settings of a producer; raise `ConfigError` where they do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """A source cluster.

    Args:
        properties: of its consumer, old or new.
        name: its name in the path of a message; empty if paths are not written.
        label: its name in logs and measures.
    """

    properties: Mapping[str, str]
    name: str = ""
    label: str = "source"

    def __post_init__(self) -> None:
        if self.by_coordinator:
            self.group_consumer(0)
        else:
            self.connector(0)

    @property
    def generation(self) -> GenerationSettings | None:
        """Its generation of Kafka; None for 0.8 and later."""
        found: GenerationSettings | None = find_generation(self.properties)
        return found

    @property
    def by_coordinator(self) -> bool:
        """Whether a coordinator keeps its group, not ZooKeeper."""
        return "bootstrap.servers" in self.properties and self.generation is None

    @property
    def zookeeper(self) -> str:
        """Its ZooKeeper; empty if none is named."""
        return self.properties.get("zookeeper.connect") or self.properties.get("zk.connect", "")

    @property
    def security(self) -> ClientSecurity:
        """Security of connections to its brokers."""
        return ClientSecurity.from_properties(self.properties)

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

    def connector(self, number: int) -> ConsumerConfig | ConsumerGeneration:
        """Return the settings of the consumer of a stream, for a group in ZooKeeper."""
        given = self._properties("smallest", "auto.commit.enable")
        for key in ("consumer.id", "consumerid"):
            if number and key in given:
                given[key] += f"-{number}"
        if self.generation is not None:
            return self.generation.source_settings(given)
        return ConsumerConfig.from_properties(given)

    def group_consumer(self, number: int) -> GroupConsumerConfig:
        """Return the settings of the consumer of a stream, for a coordinator's group."""
        given = self._properties("earliest", "enable.auto.commit")
        for key in ("zookeeper.connect", "zk.connect", "consumer.timeout.ms"):
            given.pop(key, None)
        # New topics and partitions should be mirrored soon.
        given.setdefault("metadata.max.age.ms", "30000")
        if not given.get("group.id"):
            raise ConfigError("group.id is required: the mirror's position is kept under it")
        return GroupConsumerConfig.from_properties(given)

    @property
    def group_id(self) -> str:
        """The group under which the mirror's position is kept."""
        return self.properties.get("group.id") or self.properties.get("groupid", "")
