"""DescribeConfigs and AlterConfigs, of topics and of brokers.

A topic's settings can all be changed. A broker's come from four sources, the first one wins: its
own settings in ZooKeeper, those of all brokers there, its properties file, and the defaults.

Invariant: a changed setting is described at once: the answer is read from ZooKeeper, although the
broker applies the setting a few milliseconds later.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from zkbroker.broker.context import RequestContext
from zkbroker.broker.dynamic_config import allowed_settings
from zkbroker.broker.errors import set_error
from zkbroker.broker.services import BrokerServices
from zkbroker.config.broker_keys import (
    BROKER_NAMES,
    DEFAULTS,
    SHOWN,
    is_secret,
    shown_as_given,
)
from zkbroker.config.broker_security import PREFIX
from zkbroker.config.dynamic import RATES, may_change
from zkbroker.errors import (
    ErrorCode,
    ProtocolError,
    RegistryError,
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
from zkbroker.protocol.messages.topics import TopicConfig
from zkbroker.registry.broker_configs import broker_settings, set_broker_config

Resource = TypeVar("Resource", DescribeConfigsResource, AlterConfigsResource)
Layers = tuple[tuple[ConfigSource, Mapping[str, str]], ...]
"""The sources of a broker's settings; the first one wins."""


class ConfigsHandlers:
    """Handles the configuration APIs."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._given = shown_as_given(services.dynamic.static.given)

    def describe_configs(
        self, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResponse:
        layers = self._layers()
        return DescribeConfigsResponse(
            resources=[
                self._describe(resource, layers, synonyms=request.include_synonyms)
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

    def _describe(
        self, resource: DescribeConfigsResource, layers: Layers, *, synonyms: bool
    ) -> DescribedConfigs:
        answer = DescribedConfigs(0, None, resource.resource_type, resource.resource_name)
        try:
            if resource.resource_type == ConfigResourceType.TOPIC:
                entries = self._topic_entries(resource.resource_name, layers)
            elif self._is_own(resource.resource_type, resource.resource_name):
                entries = _broker_entries(layers)
            else:
                entries = _entries_of_all(layers)
        except ZkbrokerError as error:
            set_error(answer, error)
            return answer
        wanted = None if resource.config_names is None else set(resource.config_names)
        answer.entries = [entry for entry in entries if wanted is None or entry.name in wanted]
        if not synonyms:
            for entry in answer.entries:
                entry.synonyms = []
        return answer

    def _layers(self) -> Layers:
        settings = self._services.dynamic.settings
        # Without ZooKeeper, answer with the settings in force.
        with contextlib.suppress(RegistryError):
            stored = broker_settings(self._services.session, self._services.broker_id)
            settings = allowed_settings(stored)
        return (
            (ConfigSource.DYNAMIC_BROKER, settings.own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, settings.of_all),
            (ConfigSource.STATIC_BROKER, self._given),
            (ConfigSource.DEFAULT, DEFAULTS),
        )

    def _topic_entries(self, topic: str, layers: Layers) -> list[ConfigEntry]:
        own = self._services.topics.settings(topic)
        values = self._services.dynamic.config.log.with_topic_overrides(own).topic_values()
        entries = []
        for name, value in values.items():
            broker_name = BROKER_NAMES.get(name)
            found = [] if broker_name is None else _synonyms(SHOWN[broker_name].names, layers)
            source = found[0].source if found else ConfigSource.DEFAULT
            if broker_name is not None:
                found = _from_name(broker_name, found)
            if name in own:
                source = ConfigSource.TOPIC
                found.insert(0, ConfigSynonym(name, value, source))
            is_default = name not in own
            entries.append(
                ConfigEntry(name, value, is_default=is_default, source=source, synonyms=found)
            )
        return entries

    def _alter(self, resource: AlterConfigsResource, *, validate_only: bool) -> AlteredConfigs:
        answer = AlteredConfigs(0, None, resource.resource_type, resource.resource_name)
        try:
            settings = given_settings(resource.configs)
            if resource.resource_type == ConfigResourceType.TOPIC:
                self._services.topics.configure(
                    resource.resource_name, settings, validate_only=validate_only
                )
            else:
                own = self._is_own(resource.resource_type, resource.resource_name)
                self._alter_broker(settings, own=own, validate_only=validate_only)
        except ZkbrokerError as error:
            set_error(answer, error)
        return answer

    def _alter_broker(self, settings: Mapping[str, str], *, own: bool, validate_only: bool) -> None:
        dynamic = self._services.dynamic
        if own:
            dynamic.check(dynamic.settings.of_all, settings)
        else:
            dynamic.check(settings, dynamic.settings.own)
        if not validate_only:
            broker_id = self._services.broker_id if own else None
            set_broker_config(self._services.session, broker_id, settings)

    def _is_own(self, kind: int, name: str) -> bool:
        """Whether a resource is this broker; False if it is all brokers (an empty name).

        Raises:
            ProtocolError: it is another broker, or not a broker.
        """
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
        return bool(name)


def given_settings(configs: Iterable[TopicConfig]) -> dict[str, str]:
    """Return name → value of a client's settings.

    Raises:
        ProtocolError: some have no value: INVALID_REQUEST, as in genuine brokers from 2.4 on.
    """
    settings: dict[str, str] = {}
    without = []
    for each in configs:
        if each.value is None:
            without.append(each.name)
        else:
            settings[each.name] = each.value
    if without:
        raise ProtocolError(
            f"These settings have no value: {', '.join(without)}. Leave out what is to have its "
            "default.",
            code=ErrorCode.INVALID_REQUEST,
        )
    return settings


def _once(resources: Iterable[Resource]) -> list[Resource]:
    """Keep the last item of each resource, so that a thousand repetitions cost nothing."""
    return list({(each.resource_type, each.resource_name): each for each in resources}.values())


def _synonyms(names: Iterable[str], layers: Layers) -> list[ConfigSynonym]:
    """Return every value of a broker's setting, under any of its names, the effective one first."""
    return [
        ConfigSynonym(each, values[each], source)
        for source, values in layers
        for each in names
        if each in values
    ]


def _from_name(name: str, synonyms: list[ConfigSynonym]) -> list[ConfigSynonym]:
    """Leave out the values before the first one under a name, as genuine brokers do."""
    first = next((number for number, each in enumerate(synonyms) if each.name == name), None)
    return [] if first is None else synonyms[first:]


def _broker_entries(layers: Layers) -> list[ConfigEntry]:
    names = {name for _, values in layers for name in values}
    return [_broker_entry(name, layers) for name in sorted(names | SHOWN.keys())]


def _entries_of_all(layers: Layers) -> list[ConfigEntry]:
    """Return the settings of all brokers; genuine brokers return no others for them."""
    of_all = tuple(layer for layer in layers if layer[0] == ConfigSource.DYNAMIC_DEFAULT_BROKER)
    return [_broker_entry(name, of_all) for _, values in of_all for name in sorted(values)]


def _broker_entry(name: str, layers: Layers) -> ConfigEntry:
    key = SHOWN.get(name)
    # The value of an unknown key may be a password.
    if key is not None:
        sensitive = key.sensitive
    else:
        sensitive = is_secret(name) if name.startswith(PREFIX) else name not in RATES
    names = key.names if key is not None else (name,)
    found = _from_name(name, _synonyms(names, layers))
    value = found[0].value if found else None
    source = found[0].source if found else ConfigSource.DEFAULT
    if sensitive:
        value = None
        for each in found:
            each.value = None
    return ConfigEntry(
        name,
        value,
        read_only=not any(map(may_change, names)),
        is_default=source == ConfigSource.DEFAULT,
        source=source,
        is_sensitive=sensitive,
        synonyms=found,
    )
