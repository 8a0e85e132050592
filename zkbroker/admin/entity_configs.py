"""Settings of topics, brokers, users, clients and addresses in ZooKeeper.

Invariant: a change is first checked as brokers check it, and its errors name a remedy; settings
    that are not named are kept. Credentials are stored with quotas, and `shown` hides them.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkbroker.admin import topics as topic_tool
from zkbroker.config.dynamic import check_change
from zkbroker.config.schema import nearest
from zkbroker.errors import ConfigError
from zkbroker.registry import paths, topics
from zkbroker.registry.broker_configs import broker_config, set_broker_config
from zkbroker.registry.user_configs import (
    DEFAULT,
    ConfigEntity,
    Default,
    Name,
    change_entity_config,
    entity_config,
    read_user_configs,
)
from zkbroker.security.sasl.scram import HASHES, MIN_ITERATIONS, make_credential
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NoNode

_PASSWORD = re.compile(r"(?:iterations=([0-9]{1,10}),)?password=(.*)", re.DOTALL)
HIDDEN = "[hidden]"
QUOTAS: Mapping[str, str] = {
    "producer_byte_rate": "bytes a second",
    "consumer_byte_rate": "bytes a second",
    "request_percentage": "percent of one thread's time",
}
"""Settings of users and clients, with their units."""
OF_ADDRESSES: Mapping[str, str] = {"connection_creation_rate": "connections a second"}


@dataclass(frozen=True, slots=True)
class TopicEntity:
    """A topic."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokerEntity:
    """A broker by its id; all brokers by `DEFAULT`."""

    id: int | Default


Entity = TopicEntity | BrokerEntity | ConfigEntity
Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entities of a kind are described.

    Args:
        kinds: `topics`, `brokers`, `users`, `clients`, `ips`, or `users` and `clients`.
        names: of the entities, one for each kind; None for all.
    """

    kinds: tuple[str, ...]
    names: tuple[Name | None, ...]

    @property
    def entity(self) -> Entity | None:
        """The one named entity; None if any part has no name.

        Raises:
            ConfigError: a broker is not named by its id.
        """
        if None in self.names:
            return None
        named = dict(zip(self.kinds, self.names, strict=True))
        if "topics" in named:
            topic = named["topics"]
            if isinstance(topic, Default):
                raise ConfigError("topics have no default entity: their defaults are the brokers'")
            return TopicEntity(str(topic))
        if "brokers" in named:
            broker = named["brokers"]
            if not isinstance(broker, Default) and not str(broker).isdecimal():
                raise ConfigError(f"{broker!r} is not a broker: give its id, as in 1")
            return BrokerEntity(broker if isinstance(broker, Default) else int(str(broker)))
        return ConfigEntity(
            user=named.get("users"), client=named.get("clients"), ip=named.get("ips")
        )


def title(entity: Entity) -> str:
    """Return an entity as text, in the words of genuine tools."""
    if isinstance(entity, TopicEntity):
        return f"topic '{entity.name}'"
    if isinstance(entity, BrokerEntity):
        return _named("brokers", DEFAULT if entity.id is DEFAULT else str(entity.id))
    parts = {"user-principal": entity.user, "client-id": entity.client, "ip": entity.ip}
    return ", ".join(_named(word, name) for word, name in parts.items() if name is not None)


def _named(word: str, name: Name) -> str:
    return f"default {word}" if isinstance(name, Default) else f"{word} '{name}'"


def shown(key: str, value: str) -> str:
    """Return a value for display: a credential is hidden."""
    return HIDDEN if key in HASHES or value.startswith("encryptedPassword:") else value


# -- reading


def describe(session: ZkSession, selection: Selection) -> Iterator[tuple[Entity, Settings]]:
    """Yield the settings of one entity, or of each of its kind that has settings.

    Raises:
        ConfigError: the named entity cannot exist.
        RegistryError: ZooKeeper does not answer, or the node of the named entity is unreadable.
    """
    entity = selection.entity
    if entity is not None:
        yield entity, stored(session, entity)
        return
    for each, settings in _all(session, selection):
        if settings:
            yield each, settings


def stored(session: ZkSession, entity: Entity) -> dict[str, str]:
    """Return the settings of an entity; empty if it has none."""
    if isinstance(entity, TopicEntity):
        return topics.topic_config(session, entity.name)
    if isinstance(entity, BrokerEntity):
        return broker_config(session, _broker_id(entity))
    return entity_config(session, entity)


def _all(session: ZkSession, selection: Selection) -> Iterator[tuple[Entity, Settings]]:
    if selection.kinds == ("topics",):
        for name in topics.list_topics(session):
            yield TopicEntity(name), topics.topic_config(session, name)
    elif selection.kinds == ("brokers",):
        for broker in configured_brokers(session):
            yield broker, broker_config(session, _broker_id(broker))
    else:
        wanted = dict(zip(selection.kinds, selection.names, strict=True))
        found = read_user_configs(session).settings
        for entity in sorted(found, key=lambda each: each.path):
            parts = {"users": entity.user, "clients": entity.client, "ips": entity.ip}
            has = {kind: name for kind, name in parts.items() if name is not None}
            if has.keys() == wanted.keys() and all(
                wanted[kind] in (None, name) for kind, name in has.items()
            ):
                yield entity, found[entity]


def configured_brokers(session: ZkSession) -> list[BrokerEntity]:
    """Return the brokers that have a node for settings, and the default of all."""
    try:
        names = session.children(paths.BROKER_CONFIGS)
    except NoNode:
        return []
    found = [BrokerEntity(int(name)) for name in names if name.isdecimal()]
    return [*found, BrokerEntity(DEFAULT)]


def _broker_id(entity: BrokerEntity) -> int | None:
    return None if isinstance(entity.id, Default) else entity.id


# -- changes


def change(
    session: ZkSession,
    entity: Entity,
    *,
    add: Mapping[str, str] | None = None,
    delete: Sequence[str] = (),
) -> None:
    """Change settings of an entity; brokers follow at once.

    Raises:
        ConfigError: a setting is not allowed, or one to delete is not set.
        ProtocolError: a setting of a broker may not change while it runs.
        UnknownTopicOrPartition: there is no such topic.
    """
    added = dict(add or {})
    if isinstance(entity, TopicEntity):
        topic_tool.alter_config(session, entity.name, add=added, delete=delete)
        return
    before = stored(session, entity)
    check_set(entity, delete, before)
    if isinstance(entity, BrokerEntity):
        for key, text in added.items():
            check_change(key, text)
        kept = {key: value for key, value in before.items() if key not in delete}
        set_broker_config(session, _broker_id(entity), kept | added)
        return
    written = {key: checked_setting(entity, key, text) for key, text in added.items()}
    change_entity_config(session, entity, dict.fromkeys(delete) | written)


def check_set(entity: Entity, keys: Sequence[str], present: Collection[str]) -> None:
    """Raise `ConfigError` unless an entity has the settings, which are to be deleted."""
    unset = [key for key in keys if key not in present]
    if unset:
        known = ", ".join(sorted(present)) or "none"
        raise ConfigError(f"{', '.join(unset)} is not set for {title(entity)}; set are: {known}")


def checked_setting(entity: ConfigEntity, key: str, text: str) -> str:
    """Return the stored form of a user's, client's or address's setting; of a password, a hash.

    Raises:
        ConfigError: there is no such setting, or its value is not allowed.
    """
    units = OF_ADDRESSES if entity.ip is not None else QUOTAS
    if entity.user is not None and entity.client is None and key in HASHES:
        return _credential(key, text)
    if key not in units:
        raise ConfigError(
            f"{key} is not a setting of {title(entity)}{nearest(key, units)}; there are "
            f"{', '.join(units)}"
        )
    try:
        # Genuine tools read rates in bytes as whole numbers; theirs have no underscores.
        value = float(text) if key == "request_percentage" else int(text)
        allowed = 0 < value < 2**63 and "_" not in text
    except ValueError:
        allowed = False
    if not allowed:
        raise ConfigError(f"{key}={text} is not allowed: give {units[key]}, above 0")
    return text


def _credential(mechanism: str, text: str) -> str:
    """Return the credential to store for a password, given as `[iterations=N,]password=P`."""
    match = _PASSWORD.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{mechanism} needs a password, as in {mechanism}=[iterations=8192,password=...]; "
            "`zkbroker users add` takes it from a file"
        )
    iterations = int(match.group(1) or MIN_ITERATIONS)
    return make_credential(HASHES[mechanism], match.group(2), iterations).text()
