"""DescribeConfigs (32) and AlterConfigs (33): read and replace configurations."""

from enum import IntEnum

from zkbroker.protocol.messages.topics import TopicConfig
from zkbroker.protocol.schema import (
    Kind,
    Request,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    wire_message,
)


class ConfigResourceType(IntEnum):
    """The type of a configured resource."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """The source of a configured value."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@wire_message
class DescribeConfigsResource:
    """Args: config_names null asks for all."""

    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    config_names: list[str] | None = array(Kind.STRING, nullable=0, default=None)


@wire_message
class DescribeConfigsRequest(Request):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(since=1)


@wire_message
class ConfigSynonym:
    name: str = string()
    value: str | None = string(nullable=0, default=None)
    source: int = int8(default=ConfigSource.DEFAULT)


@wire_message
class ConfigEntry:
    name: str = string()
    value: str | None = string(nullable=0, default=None)
    read_only: bool = boolean()
    is_default: bool = boolean(until=0)
    source: int = int8(since=1, default=ConfigSource.UNKNOWN)
    is_sensitive: bool = boolean()
    synonyms: list[ConfigSynonym] = array(ConfigSynonym, since=1)


@wire_message
class DescribedConfigs:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    entries: list[ConfigEntry] = array(ConfigEntry)


@wire_message
class DescribeConfigsResponse:
    throttle_time_ms: int = int32()
    resources: list[DescribedConfigs] = array(DescribedConfigs)


@wire_message
class AlterConfigsResource:
    """Args: configs replaces the whole set of the resource."""

    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()
    configs: list[TopicConfig] = array(TopicConfig)


@wire_message
class AlterConfigsRequest(Request):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@wire_message
class AlteredConfigs:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8(default=ConfigResourceType.TOPIC)
    resource_name: str = string()


@wire_message
class AlterConfigsResponse:
    throttle_time_ms: int = int32()
    resources: list[AlteredConfigs] = array(AlteredConfigs)
