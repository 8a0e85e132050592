"""What is mirrored, how, from where, to where; as options or as one property file.

    whitelist=orders|payments         the mirror's own settings
    source.east.zookeeper.connect=…   `source.NAME.` before each setting of the consumer of a source
    target.bootstrap.servers=…        `target.` before each setting of the producer

Invariant: what the promise rests on is not left to the settings of consumer and producer: nothing
is committed but by the mirror, and a producer that does not wait for an answer is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

from zkbroker.config import load_properties
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.generation import is_07, without_generation
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.legacy07_consumer import ConsumerConfig07
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.schema import Bool, Int, Str, from_properties, option, validate
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.errors import ConfigError

_FOREVER = 2**31 - 1
_COMMIT_INTERVAL_MS = 60_000
_COMMIT_EXACTLY_ONCE_S = 1.0
# What makes a consumer of one's own; a mirror passes bytes on.
_CODING = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")
_SINGLE_MESSAGES = ("callback.handler", "event.handler", "interceptor.classes", "serializer.class")


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
            if key not in _CODING
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """How to mirror."""

    IGNORED: ClassVar[Mapping[str, str]] = {
        "num.producers": "one producer sends to all brokers at once",
        "queue.size": "window.bytes bounds what is under way",
        "new.consumer": "a consumer with bootstrap.servers is a new one",
        "new.producer": "there is one producer",
    }

    whitelist: str = option(
        "whitelist",
        "mirror.topics.whitelist",
        default="",
        kind=Str(),
        doc="Topics to mirror: a Java regular expression, or names separated by commas.",
    )
    blacklist: str = option(
        "blacklist",
        "mirror.topics.blacklist",
        default="",
        kind=Str(),
        doc="Topics not to mirror, in the same form; all others are mirrored.",
    )
    num_streams: int = option(
        "num.streams",
        "mirror.consumer.numthreads",
        default=1,
        kind=Int(1, 64),
        doc="Consumers of each source that share its partitions.",
    )
    commit_interval_ms: int = option(
        "offset.commit.interval.ms",
        default=_COMMIT_INTERVAL_MS,
        kind=Int(1),
        doc="Time between two commits of how far the sources were mirrored, in ms. With "
        "exactly.once also how long messages are not seen; 60000 then means 1000.",
    )
    abort_on_send_failure: bool = option(
        "abort.on.send.failure",
        default=True,
        kind=Bool(),
        doc="Whether the mirror ends, without a commit, over a message that the target refuses. "
        "Otherwise it is counted as dropped, and the mirror goes on behind it.",
    )
    message_handler: str = option(
        "message.handler",
        default="",
        kind=Str(),
        doc="Import path (package.module:Name) of what is called with each message and returns "
        "the messages to send in its place. Everything is decoded then.",
    )
    message_handler_args: str = option(
        "message.handler.args", default="", kind=Str(), doc="One text given to its constructor."
    )
    rebalance_listener: str = option(
        "consumer.rebalance.listener",
        "rebalance.listener",
        default="",
        kind=Str(),
        doc="Import path of a rebalance listener of the consumers.",
    )
    rebalance_listener_args: str = option(
        "rebalance.listener.args", default="", kind=Str(), doc="One text for its constructor."
    )
    identity_partitions: bool = option(
        "identity.partitions",
        default=False,
        kind=Bool(),
        doc="Every message keeps the number of its partition: topics are created and grown with "
        "the count and the settings of the source. Otherwise numbers are kept where the target's "
        "topic has as many partitions, and keys decide where it has not.",
    )
    topic_prefix: str = option(
        "topic.prefix",
        default="",
        kind=Str(),
        doc="Put before the names of topics in the target. {source} is the name of the source.",
    )
    target_name: str = option(
        "target.name",
        default="",
        kind=Str(),
        doc="Name of the target cluster. With names of the sources and without a prefix every "
        "message gets a header that names its path, and none is sent where it has been.",
    )
    follow_settings: bool = option(
        "follow.topic.settings",
        default=True,
        kind=Bool(),
        doc="With identity.partitions: whether changes of a topic's settings and of its number of "
        "partitions are made in the target too.",
    )
    topics_interval_ms: int = option(
        "topics.interval.ms",
        default=30_000,
        kind=Int(100),
        doc="Time between two looks at the settings of the topics, in ms.",
    )
    replication_factor: int = option(
        "replication.factor",
        default=0,
        kind=Int(0, 32_767),
        doc="Replicas of topics created with identity.partitions; 0: as many as in the source, but "
        "no more than the target has brokers.",
    )
    window_bytes: int = option(
        "window.bytes",
        default=32 * 1024 * 1024,
        kind=Int(1024),
        doc="Bytes of one stream that may be fetched and not yet acknowledged by the target; "
        "beyond them it waits.",
    )
    flush_timeout_ms: int = option(
        "flush.timeout.ms",
        default=30_000,
        kind=Int(1),
        doc="How long to wait for the target's answers before partitions are given away and at "
        "the end, in ms; what is not answered then is mirrored again.",
    )
    start_timeout_ms: int = option(
        "start.timeout.ms",
        default=60_000,
        kind=Int(0),
        doc="How long the start tries again while a cluster cannot be reached, in ms.",
    )
    join_bytes: int = option(
        "join.batches.bytes",
        default=16 * 1024,
        kind=Int(0, 2**30),
        doc="Stored batches smaller than this that follow each other are joined to larger ones; "
        "0: never.",
    )
    offset_syncs_topic: str = option(
        "offset.syncs.topic",
        default="mirror-offset-syncs",
        kind=Str(),
        doc="Topic of the target in which is kept which offset there belongs to which of the "
        "source, with identity.partitions; empty: none, and `mirror offsets` cannot tell.",
    )
    drop_headers: bool = option(
        "drop.headers",
        default=False,
        kind=Bool(),
        doc="Whether headers are left out for a target whose format has none (before 0.11); "
        "otherwise such a message is one that the target refuses.",
    )
    exactly_once: bool = option(
        "exactly.once",
        default=False,
        kind=Bool(),
        doc="Whether messages and the place in the source are stored in one transaction of the "
        "target, which has to be 0.11 or later. Each partition of a source has a producer then.",
    )
    exactly_once_id: str = option(
        "exactly.once.id",
        default="",
        kind=Str(),
        doc="What a source's place in the target and its transactional ids begin with, the same "
        "for all mirrors that share the work; `mirror-GROUP-SOURCE` without it. With another one "
        "a mirror begins anew.",
    )
    exactly_once_topic: str = option(
        "exactly.once.topic",
        default="mirror-positions",
        kind=Str(),
        doc="Topic of the target in which the places are kept with exactly.once.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig(MirrorOptions):
    """Settings of a mirror.

    Args:
        sources: the clusters to mirror.
        target: properties of the producer.
    """

    sources: Sequence[SourceConfig] = field(default=())
    target: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        validate(self)
        if bool(self.whitelist) == bool(self.blacklist):
            raise ConfigError("give exactly one of whitelist and blacklist")
        if not self.sources:
            raise ConfigError("no source is given: name at least one consumer's settings")
        names = [source.name for source in self.sources if source.name]
        if self.exactly_once:
            self._check_exactly_once(len(names))
        if len(set(names)) < len(names):
            raise ConfigError(f"two sources have one name: {', '.join(names)}")
        if "{source}" in self.topic_prefix and len(names) < len(self.sources):
            raise ConfigError(
                f"topic.prefix={self.topic_prefix!r} needs a name for every source (source.name)"
            )
        legacy07 = [source.label for source in self.sources if source.legacy07]
        if legacy07 and self.identity_partitions:
            raise ConfigError(
                f"identity.partitions=true is not for source {legacy07[0]}: partitions of Kafka "
                "0.7 are numbered on each broker; create the topics in the target"
            )
        if self.target_name in names:
            raise ConfigError(f"target.name={self.target_name} is the name of a source too")
        self.producer(idempotent=False)

    def _check_exactly_once(self, names: int) -> None:
        if not self.abort_on_send_failure:
            raise ConfigError(
                "exactly.once=true needs abort.on.send.failure=true: a message that is dropped "
                "does not arrive once"
            )
        if not self.exactly_once_topic:
            raise ConfigError("exactly.once=true needs a topic for the places: exactly.once.topic")
        if len(self.sources) > 1 and names < len(self.sources):
            raise ConfigError(
                "exactly.once=true with several sources needs a name for each of them, under which "
                "its place is kept (--source-name, or source.NAME. before its settings)"
            )

    @property
    def commit_every_s(self) -> float:
        """Time between two commits, in seconds."""
        if self.exactly_once and self.commit_interval_ms == _COMMIT_INTERVAL_MS:
            return _COMMIT_EXACTLY_ONCE_S
        return self.commit_interval_ms / 1000

    def exactly_once_name(self, source: SourceConfig) -> str:
        """Return what the place of a source is kept under."""
        return self.exactly_once_id or f"mirror-{source.group_id}-{source.label}"

    @property
    def writes_paths(self) -> bool:
        """Whether messages get a header that names the clusters they came through."""
        named = all(source.name for source in self.sources)
        return bool(self.target_name) and named and not self.topic_prefix

    def prefix(self, source: SourceConfig) -> str:
        """Return what is put before the topics of a source."""
        return self.topic_prefix.replace("{source}", source.name)

    def producer(self, *, idempotent: bool, transactional_id: str = "") -> ProducerConfig:
        """Return the producer's settings: as asked for, and else such that nothing is lost.

        Args:
            idempotent: whether the target numbers batches; not where the settings say otherwise.
            transactional_id: of a producer that mirrors exactly once.

        Raises:
            ConfigError: they give up what a mirror promises.
        """
        given = {key: value for key, value in self.target.items() if key not in _CODING}
        for key in _SINGLE_MESSAGES:
            if given.get(key):
                raise ConfigError(
                    f"{key}={given[key]} is not for mirrors: whole batches pass; use "
                    "message.handler to see single messages"
                )
        if given.get("transactional.id"):
            raise ConfigError(
                "transactional.id is not for mirrors: with exactly.once=true they have ids of "
                "their own (exactly.once.id)"
            )
        if transactional_id:
            given["transactional.id"] = transactional_id
        _default(given, "-1", "request.required.acks", "acks")
        _default(given, str(_FOREVER), "message.send.max.retries", "num.retries", "retries")
        _default(given, str(_FOREVER), "delivery.timeout.ms")
        _default(given, "0", "queue.buffering.max.ms", "queue.time", "linger.ms")
        _default(given, "true" if idempotent else "false", "enable.idempotence")
        given["producer.type"] = "async"
        config = ProducerConfig.from_properties(given)
        if config.required_acks == 0:
            raise ConfigError(
                "request.required.acks=0 is not for mirrors: nobody would know what arrived; give "
                "1 or -1"
            )
        return config

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        *,
        sources: Sequence[SourceConfig] = (),
        target: Mapping[str, str] | None = None,
        every_source: Mapping[str, str] | None = None,
    ) -> "MirrorConfig":
        """Build the settings.

        Args:
            properties: those of the mirror, and `source.NAME.KEY` and `target.KEY`.
            sources: more sources.
            target: more settings of the target's producer.
            every_source: settings of the sources in `properties` that they do not have themselves.

        Raises:
            ConfigError: a value is not allowed, or something is missing.
        """
        own: dict[str, str] = {}
        found: dict[str, dict[str, str]] = {}
        to: dict[str, str] = {}
        for key, value in properties.items():
            first, _, rest = key.partition(".")
            name, dot, setting = rest.partition(".")
            if first == "source" and dot:
                found.setdefault(name, {})[setting] = value
            elif first == "target" and rest != "name":
                to[rest] = value
            else:
                own[key] = value
        named = [
            SourceConfig(properties={**(every_source or {}), **given}, name=name, label=name)
            for name, given in found.items()
        ]
        base = from_properties(MirrorOptions, own)
        values = {each.name: getattr(base, each.name) for each in fields(base)}
        return cls(**values, sources=(*named, *sources), target={**to, **(target or {})})

    @classmethod
    def load(cls, path: str) -> "MirrorConfig":
        """Read a property file; see `from_properties`."""
        return cls.from_properties(load_properties(path))


def _default(given: dict[str, str], value: str, *spellings: str) -> None:
    if not any(key in given for key in spellings):
        given[spellings[0]] = value
