"""The configuration of a mirror, as options or as one property file.

    whitelist=orders|payments         the mirror's own settings
    source.east.zookeeper.connect=…   `source.NAME.` before each setting of the consumer of a source
    target.bootstrap.servers=…        `target.` before each setting of the producer

Invariant: settings of consumer and producer cannot break the delivery guarantee: only the mirror
    commits, and a producer that does not wait for an answer is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from zkbroker.config import load_properties
from zkbroker.config.generation import find_generation, without_generation
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.schema import from_properties, validate
from zkbroker.config.security import ClientSecurity
from zkbroker.errors import ConfigError
from zkbroker.mirror.options import COMMIT_INTERVAL_MS, MirrorOptions
from zkbroker.mirror.source_config import CODING, GenerationSettings, SourceConfig
from zkbroker.producer.generation import ProducerGeneration

_FOREVER = str(2**31 - 1)
_COMMIT_EXACTLY_ONCE_S = 1.0
_SINGLE_MESSAGES = ("callback.handler", "event.handler", "interceptor.classes", "serializer.class")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig(MirrorOptions):
    """Settings of a mirror."""

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
        if self.identity_partitions:
            self._check_identity()
        if self.target_name in names:
            raise ConfigError(f"target.name={self.target_name} is the name of a source too")
        if self.target_generation is None:
            self.producer(idempotent=False)
        elif self.exactly_once:
            raise ConfigError(
                "exactly.once=true is not for this target: "
                f"{self.target_generation.why_no_transactions}; mirror at least once"
            )
        else:
            self.generation_producer()

    def _check_identity(self) -> None:
        sides = [(f"source {each.label}", each.generation) for each in self.sources]
        for side, generation in (*sides, ("the target", self.target_generation)):
            if generation is not None:
                raise ConfigError(
                    f"identity.partitions=true is not for {side}: {generation.why_no_identity}; "
                    "create the topics in the target"
                )

    def _check_exactly_once(self, names: int) -> None:
        if not self.abort_on_send_failure:
            raise ConfigError(
                "exactly.once=true needs abort.on.send.failure=true: a dropped message "
                "does not arrive once"
            )
        if not self.exactly_once_topic:
            raise ConfigError("exactly.once=true needs a topic for positions: exactly.once.topic")
        if len(self.sources) > 1 and names < len(self.sources):
            raise ConfigError(
                "exactly.once=true with several sources needs a name for each of them, under which "
                "its position is kept (--source-name, or source.NAME. before its settings)"
            )

    @property
    def target_generation(self) -> GenerationSettings | None:
        """The target's generation of Kafka; None for 0.8 and later."""
        found: GenerationSettings | None = find_generation(self.target)
        return found

    @property
    def target_zookeeper(self) -> str:
        """The target's ZooKeeper; empty if none is named."""
        return self.target.get("zookeeper.connect") or self.target.get("zk.connect", "")

    @property
    def target_security(self) -> ClientSecurity:
        """Security of connections to the target and its ZooKeeper."""
        return ClientSecurity.from_properties(self.target)

    @property
    def commit_every_s(self) -> float:
        """Time between two commits, in seconds."""
        if self.exactly_once and self.commit_interval_ms == COMMIT_INTERVAL_MS:
            return _COMMIT_EXACTLY_ONCE_S
        return self.commit_interval_ms / 1000

    def exactly_once_name(self, source: SourceConfig) -> str:
        """Return the name under which a source's position is kept; no two sources share one."""
        if not self.exactly_once_id:
            return f"mirror-{source.group_id}-{source.label}"
        alone = len(self.sources) == 1
        return self.exactly_once_id if alone else f"{self.exactly_once_id}-{source.label}"

    @property
    def writes_paths(self) -> bool:
        """Whether messages get a header with the clusters that they passed."""
        named = all(source.name for source in self.sources)
        return bool(self.target_name) and named and not self.topic_prefix

    def prefix(self, source: SourceConfig) -> str:
        """Return the prefix of a source's topics."""
        return self.topic_prefix.replace("{source}", source.name)

    def producer(
        self, *, idempotent: bool | None = None, transactional_id: str = ""
    ) -> ProducerConfig:
        """Return the producer's settings: the configured ones, with defaults that lose nothing.

        Args:
            idempotent: whether the producer is idempotent; None to leave it to the settings.
            transactional_id: of a producer that mirrors exactly once.

        Raises:
            ConfigError: they break the guarantee of a mirror.
        """
        given = self._producer_properties()
        if transactional_id:
            given["transactional.id"] = transactional_id
        if idempotent is not None:
            given["enable.idempotence"] = str(idempotent).lower()
        config = ProducerConfig.from_properties(given)
        _check_acks(config)
        return config

    def generation_producer(self) -> ProducerGeneration:
        """Return the same for a target of another generation.

        Raises:
            ConfigError: they break the guarantee of a mirror.
        """
        assert self.target_generation is not None
        made = self.target_generation.target_settings(self._producer_properties())
        _check_acks(made.producer())
        return made

    def _producer_properties(self) -> dict[str, str]:
        given = {k: v for k, v in without_generation(self.target).items() if k not in CODING}
        for key in _SINGLE_MESSAGES:
            if given.get(key):
                raise ConfigError(
                    f"{key}={given[key]} is not for mirrors, which copy whole batches; use "
                    "message.handler for single messages"
                )
        if given.get("transactional.id"):
            raise ConfigError(
                "transactional.id is not for mirrors: with exactly.once=true they have ids of "
                "their own (exactly.once.id)"
            )
        _default(given, "-1", "request.required.acks", "acks")
        _default(given, _FOREVER, "delivery.timeout.ms")
        _default(given, _FOREVER, "message.send.max.retries", "num.retries", "retries")
        _default(given, "0", "queue.buffering.max.ms", "queue.time", "linger.ms")
        given["producer.type"] = "async"
        return given

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
            every_source: defaults for the sources in `properties`.

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


def _check_acks(config: ProducerConfig) -> None:
    if config.required_acks == 0:
        raise ConfigError(
            "request.required.acks=0 is not for mirrors: losses would go unnoticed; give 1 or -1"
        )


def _default(given: dict[str, str], value: str, *spellings: str) -> None:
    if not any(key in given for key in spellings):
        given[spellings[0]] = value
