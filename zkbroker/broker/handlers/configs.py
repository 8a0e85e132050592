"""DescribeConfigs and AlterConfigs, and InitProducerId.

Topics have settings that can be changed; a broker's are shown and are changed in its properties
file.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code, error_message
from zkbroker.broker.services import BrokerServices
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.config.schema import options
from zkbroker.errors import (
    ErrorCode,
    ProtocolError,
    ZkbrokerError,
)
from zkbroker.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    AlteredConfigs,
    ConfigEntry,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    DescribeConfigsResource,
    DescribedConfigs,
)

Resource = TypeVar("Resource", DescribeConfigsResource, AlterConfigsResource)


class ConfigsHandlers:
    """Handles the configuration APIs."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            resources=[
                self._describe(resource, synonyms=request.include_synonyms)
                for resource in context.paced(_once(request.resources))
            ]
        )

    def alter_configs(
        self, request: AlterConfigsRequest, context: RequestContext
    ) -> AlterConfigsResponse:
        return AlterConfigsResponse(
            resources=[
                self._alter(resource, validate_only=request.validate_only)
                for resource in context.paced(_once(request.resources))
            ]
        )

    def _describe(self, resource: DescribeConfigsResource, *, synonyms: bool) -> DescribedConfigs:
        answer = DescribedConfigs(0, None, resource.resource_type, resource.resource_name)
        try:
            if resource.resource_type == ConfigResourceType.TOPIC:
                entries = self._topic_entries(resource.resource_name, synonyms=synonyms)
            else:
                self._check_broker(resource.resource_type, resource.resource_name)
                entries = self._broker_entries()
        except ZkbrokerError as error:
            answer.error_code = error_code(error)
            answer.error_message = error_message(error)
            return answer
        wanted = None if resource.config_names is None else set(resource.config_names)
        answer.entries = [entry for entry in entries if wanted is None or entry.name in wanted]
        return answer

    def _topic_entries(self, topic: str, *, synonyms: bool) -> list[ConfigEntry]:
        own = self._services.topics.settings(topic)
        defaults = self._services.config.log
        genuine = LogConfig().topic_values()
        values = defaults.with_topic_overrides(own).topic_values()
        base = defaults.topic_values()
        return [
            _entry(name, value, own, base, genuine, synonyms=synonyms)
            for name, value in values.items()
        ]

    def _broker_entries(self) -> list[ConfigEntry]:
        config = self._services.config
        entries: list[ConfigEntry] = []
        parts: tuple[tuple[type, object], ...] = (
            (BrokerConfig, config),
            (LogConfig, config.log),
            (LogManagerConfig, config.log_manager),
        )
        defaults = {
            LogConfig: LogConfig(),
            LogManagerConfig: LogManagerConfig(),
            BrokerConfig: BrokerConfig(zookeeper_connect=config.zookeeper_connect),
        }
        for kind, values in parts:
            for declared, declared_option in options(kind):
                name, factor = declared_option.keys[0]
                value = getattr(values, declared.name)
                # `zookeeper.connect` has no default: the configuration below borrows its value.
                default = name != "zookeeper.connect" and value == getattr(
                    defaults[kind], declared.name
                )
                entries.append(
                    ConfigEntry(
                        name,
                        # in the unit that the name says
                        _text(value // factor if factor != 1 else value),
                        read_only=True,
                        is_default=default,
                        source=ConfigSource.DEFAULT if default else ConfigSource.STATIC_BROKER,
                    )
                )
        return sorted(entries, key=lambda entry: entry.name)

    def _alter(self, resource: AlterConfigsResource, *, validate_only: bool) -> AlteredConfigs:
        answer = AlteredConfigs(0, None, resource.resource_type, resource.resource_name)
        try:
            if resource.resource_type != ConfigResourceType.TOPIC:
                self._check_broker(resource.resource_type, resource.resource_name)
                raise ProtocolError(
                    "A broker's configuration is changed in its properties file.",
                    code=ErrorCode.INVALID_REQUEST,
                )
            settings = {
                setting.name: setting.value
                for setting in resource.configs
                if setting.value is not None
            }
            self._services.topics.configure(
                resource.resource_name, settings, validate_only=validate_only
            )
        except ZkbrokerError as error:
            answer.error_code = error_code(error)
            answer.error_message = error_message(error)
        return answer

    def _check_broker(self, kind: int, name: str) -> None:
        if kind != ConfigResourceType.BROKER:
            raise ProtocolError(
                f"Resource type {kind} has no configuration.", code=ErrorCode.INVALID_REQUEST
            )
        if name and name != str(self._services.broker_id):
            raise ProtocolError(
                f"This is broker {self._services.broker_id}; ask broker {name} for its own "
                f"configuration.",
                code=ErrorCode.INVALID_REQUEST,
            )


def _once(resources: Iterable[Resource]) -> list[Resource]:
    """Take the last of each resource; to name one a thousand times is not to be worth it."""
    return list({(each.resource_type, each.resource_name): each for each in resources}.values())


def _entry(
    name: str,
    value: str,
    own: Mapping[str, str],
    base: Mapping[str, str],
    genuine: Mapping[str, str],
    *,
    synonyms: bool,
) -> ConfigEntry:
    configured = base[name] != genuine[name]
    if name in own:
        source = ConfigSource.TOPIC
    elif configured:
        source = ConfigSource.STATIC_BROKER
    else:
        source = ConfigSource.DEFAULT
    entry = ConfigEntry(name, value, is_default=name not in own, source=source)
    if synonyms:
        if name in own:
            entry.synonyms.append(ConfigSynonym(name, value, ConfigSource.TOPIC))
        broker_name = _BROKER_NAMES.get(name)
        if broker_name is not None and configured:
            entry.synonyms.append(
                ConfigSynonym(broker_name, base[name], ConfigSource.STATIC_BROKER)
            )
        if broker_name is not None and broker_name not in _WITHOUT_DEFAULT:
            entry.synonyms.append(ConfigSynonym(broker_name, genuine[name], ConfigSource.DEFAULT))
    return entry


_BROKER_NAMES: Mapping[str, str] = {
    name: declared_option.keys[0][0]
    for name, attribute in LogConfig.TOPIC_FIELDS.items()
    for declared, declared_option in options(LogConfig)
    if declared.name == attribute
}
"""Topic-level name → the broker's name for the same setting."""

_WITHOUT_DEFAULT = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms"})
"""Names whose default genuine brokers have under the name of another unit, and do not list."""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{number}" for name, number in value.items())
    return str(value)
