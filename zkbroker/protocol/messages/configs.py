"""Configuration over the wire: DescribeConfigs (32) and AlterConfigs (33)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from zkbroker.protocol.api import ApiKey
from zkbroker.protocol.messages.topics import TopicConfig
from zkbroker.protocol.schema import Kind, array, boolean, int8, int16, int32, string


class ConfigResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a configured value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(slots=True)
class DescribeConfigsResource:
    """Args: config_names null asks for all."""

    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    config_names: list[str] | None = array(Kind.STRING, nullable=0, default=None)


@dataclass(slots=True)
class DescribeConfigsRequest:
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(since=1)


@dataclass(slots=True)
class ConfigSynonym:
    name: str = string()
    value: str | None = string(nullable=0, default=None)
    source: int = int8(default=ConfigSource.DEFAULT)


@dataclass(slots=True)
class ConfigEntry:
    name: str = string()
    value: str | None = string(nullable=0, default=None)
    read_only: bool = boolean()
    is_default: bool = boolean(until=0)
    source: int = int8(since=1, default=ConfigSource.UNKNOWN)
    is_sensitive: bool = boolean()
    synonyms: list[ConfigSynonym] = array(ConfigSynonym, since=1)


@dataclass(slots=True)
class DescribedConfigs:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    entries: list[ConfigEntry] = array(ConfigEntry)


@dataclass(slots=True)
class DescribeConfigsResponse:
    throttle_time_ms: int = int32()
    resources: list[DescribedConfigs] = array(DescribedConfigs)


@dataclass(slots=True)
class AlterConfigsResource:
    """Args: configs replaces the whole set of the resource."""

    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    configs: list[TopicConfig] = array(TopicConfig)


@dataclass(slots=True)
class AlterConfigsRequest:
    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class AlteredConfigs:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()


@dataclass(slots=True)
class AlterConfigsResponse:
    throttle_time_ms: int = int32()
    resources: list[AlteredConfigs] = array(AlteredConfigs)
