"""Settings of topics and brokers through the brokers: DescribeConfigs and AlterConfigs.

AlterConfigs replaces all settings of a resource, so the other settings are read first and sent
again.

Invariant: a setting whose value brokers hide is never lost: a change that would lose it is refused,
    as by genuine tools.
"""

from collections.abc import Mapping, Sequence

from zkbroker.admin.entity_configs import BrokerEntity, Entity, TopicEntity, check_set, title
from zkbroker.client import Cluster
from zkbroker.errors import ClientError, ConfigError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import AlterConfigsRequest, DescribeConfigsRequest
from zkbroker.protocol.messages.configs import (
    AlterConfigsResource,
    ConfigEntry,
    ConfigResourceType,
    ConfigSource,
    DescribeConfigsResource,
)
from zkbroker.protocol.messages.topics import TopicConfig
from zkbroker.registry.user_configs import Default


def described(cluster: Cluster, entity: Entity) -> list[ConfigEntry]:
    """Return every setting of a topic or a broker, with its sources.

    Raises:
        ConfigError: the entity is neither.
        ClientError: no broker answers.
        ProtocolError: the broker refuses.
    """
    kind, name = _resource(entity)
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name)], include_synonyms=True)
    answer = _asked(cluster, entity).request(request).resources[0]
    _check(answer.error_code, answer.error_message, entity)
    entries: list[ConfigEntry] = answer.entries
    return entries


def own_settings(cluster: Cluster, entity: Entity) -> list[ConfigEntry]:
    """Return an entity's own settings."""
    kind, name = _resource(entity)
    if kind is ConfigResourceType.TOPIC:
        source = ConfigSource.TOPIC
    else:
        source = ConfigSource.DYNAMIC_BROKER if name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [entry for entry in described(cluster, entity) if is_own(entry, source)]


def is_own(entry: ConfigEntry, source: ConfigSource) -> bool:
    """Whether a setting has a source; brokers before 1.1 tell only a topic's own from others."""
    if entry.source == ConfigSource.UNKNOWN:
        return source is ConfigSource.TOPIC and not entry.is_default
    return entry.source == source


def change_described(
    cluster: Cluster, entity: Entity, *, add: Mapping[str, str], delete: Sequence[str]
) -> None:
    """Change settings of a topic or a broker.

    Raises:
        ConfigError: one to delete is not set, or a setting is set that brokers hide.
        ProtocolError: the broker refuses.
    """
    own = {entry.name: entry for entry in own_settings(cluster, entity)}
    check_set(entity, delete, own)
    kept = {key: entry for key, entry in own.items() if key not in delete}
    hidden = sorted(key for key, each in kept.items() if each.value is None and key not in add)
    if hidden:
        raise ConfigError(
            f"brokers hide the value of {', '.join(hidden)}, which would be lost: give "
            "it again, or delete it"
        )
    whole = {key: entry.value for key, entry in kept.items()} | dict(add)
    kind, name = _resource(entity)
    configs = [TopicConfig(key, value) for key, value in whole.items()]
    request = AlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
    answer = _asked(cluster, entity).request(request).resources[0]
    _check(answer.error_code, answer.error_message, entity)


def _resource(entity: Entity) -> tuple[ConfigResourceType, str]:
    if isinstance(entity, TopicEntity):
        return ConfigResourceType.TOPIC, entity.name
    if isinstance(entity, BrokerEntity):
        name = "" if isinstance(entity.id, Default) else str(entity.id)
        return ConfigResourceType.BROKER, name
    raise ConfigError(
        f"settings of {title(entity)} are not known to brokers of this version: they are kept in "
        "ZooKeeper, give -z HOST:PORT[/CHROOT]"
    )


def _asked(cluster: Cluster, entity: Entity) -> BrokerConnection:
    if not isinstance(entity, BrokerEntity) or isinstance(entity.id, Default):
        return cluster.any_connection()
    if entity.id not in cluster.brokers():
        live = ", ".join(map(str, sorted(cluster.brokers()))) or "none"
        raise ClientError(
            f"broker {entity.id} is not running; running are: {live}. Settings of a "
            "stopped broker can be changed with -z"
        )
    return cluster.connection(entity.id)


def _check(code: int, message: str | None, entity: Entity) -> None:
    if code:
        raise protocol_error(code, message or f"refused for {title(entity)}")
