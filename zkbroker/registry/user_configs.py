"""Settings of users, clients, and addresses of clients.

    /config/users/[user]                     {"version":1,"config":{"producer_byte_rate":"1024"}}
    /config/users/[user]/clients/[client]    the same
    /config/clients/[client]                 the same
    /config/ips/[address]                    {"version":1,"config":{"connection_creation_rate":"9"}}
    /config/changes/config_change_           {"version":2,"entity_path":"users/[user]"}

A name is URL-encoded (`%20` for a blank, `%2A` for `*`); `<default>` stands for all that have no
settings of their own. A parent may hold no data. The quotas and the SCRAM credentials of a user are
in the same node.

Invariant: a write changes only the keys that it names, under the node version that was read; the
notice follows it. No message shows the content of a node, since that may be a credential. A node
stays when its last setting is removed, as with genuine tools.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Self
from urllib.parse import quote, unquote

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.config_changes import changed_entity, note_change
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.notices import Notices
from zkbroker.registry.optional_nodes import children, read_node
from zkbroker.registry.topics import decode_settings, encode_config
from zkbroker.zookeeper.errors import BadVersion, NodeExists, NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import Mark, WatchLoop

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
_DEFAULT_NODE = "<default>"


class Default(Enum):
    """Stands for every user, client or address without settings of its own."""

    DEFAULT = _DEFAULT_NODE


DEFAULT = Default.DEFAULT

Name = str | Default


def encode_name(name: Name) -> str:
    """Return the node of a user or client, URL-encoded as genuine tools encode it."""
    if isinstance(name, Default):
        return _DEFAULT_NODE
    return quote(name, safe="", errors="replace").replace("~", "%7E")


def decode_name(node: str) -> Name:
    """Return the user or client that a node is named after.

    Raises:
        ValueError: the node is not a validly encoded name.
    """
    if node == _DEFAULT_NODE:
        return DEFAULT
    name = unquote(node)
    if not name or encode_name(name) != node:
        raise ValueError(f"{node!r} is not URL-encoded as genuine tools encode names")
    return name


@dataclass(frozen=True, slots=True)
class ConfigEntity:
    """The owner of settings: a user, a client, a client of a user, or an address.

    Args:
        user: the name of a principal, without its type.
        client: a client id.
        ip: an address; not combined with the others.
    """

    user: Name | None = None
    client: Name | None = None
    ip: Name | None = None

    @property
    def path(self) -> str:
        """The node, relative to `/config`, as notices name it."""
        if self.ip is not None:
            # Genuine tools do not encode addresses, even with the colons of IPv6.
            return f"ips/{self.ip.value if isinstance(self.ip, Default) else self.ip}"
        parts = [] if self.user is None else ["users", encode_name(self.user)]
        if self.client is not None:
            parts += ["clients", encode_name(self.client)]
        return "/".join(parts)

    @property
    def node(self) -> str:
        """The full path of the node."""
        return f"{paths.CONFIG}/{self.path}"

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Return the entity of a node; None for another kind of node, or an invalid name.

        Args:
            path: relative to `/config`, such as `users/alice/clients/c1`.
        """
        parts = path.split("/")
        try:
            match parts:
                case ["users", user]:
                    return cls(user=decode_name(user))
                case ["clients", client]:
                    return cls(client=decode_name(client))
                case ["users", user, "clients", client]:
                    return cls(user=decode_name(user), client=decode_name(client))
                case ["ips", ip] if ip == _DEFAULT_NODE:
                    return cls(ip=DEFAULT)
                case ["ips", ip] if ip.isprintable() and ip not in ("", ".", ".."):
                    return cls(ip=ip)
        except ValueError as error:
            logger.debug("settings of no name path=%s error=%s", path, error)
        return None


Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UserConfigs:
    """The settings of all users, clients and addresses; the repr shows none of them."""

    settings: Mapping[ConfigEntity, Settings] = field(default_factory=dict, repr=False)

    def user(self, name: str) -> Settings:
        """Return the settings of a user itself, empty without any."""
        return self.settings.get(ConfigEntity(user=name), {})


# -- single nodes


def entity_config(session: ZkSession, entity: ConfigEntity) -> dict[str, str]:
    """Return the settings of an entity, empty without any.

    Raises:
        RegistryError: the node holds no settings.
    """
    found = read_node(session, entity.node)
    return {} if found is None else _decode(entity.node, found[0])


def change_entity_config(
    session: ZkSession, entity: ConfigEntity, changes: Mapping[str, str | None]
) -> dict[str, str]:
    """Change some settings of an entity, keep the others, and notify the brokers.

    Args:
        session: a started session.
        entity: the owner of the settings.
        changes: key → new value; None removes the key.

    Returns:
        all settings of the entity after that.

    Raises:
        RegistryError: the node holds no settings, or too many clients write it at once.
    """
    for _ in range(_ATTEMPTS):
        data, stat = read_node(session, entity.node) or (b"", None)
        merged = _decode(entity.node, data) | {k: v for k, v in changes.items() if v is not None}
        whole = {key: value for key, value in merged.items() if changes.get(key, value) is not None}
        with contextlib.suppress(BadVersion, NodeExists, NoNode):
            if stat is None:
                session.create(entity.node, encode_config(whole), parents=True)
            else:
                session.set(entity.node, encode_config(whole), stat.version)
            note_change(session, entity.path)
            return whole
    raise RegistryError(f"{entity.node} is being changed by too many clients at once")


def _decode(path: str, data: bytes) -> dict[str, str]:
    try:
        return decode_settings(path, data)
    except RegistryError:
        raise RegistryError(
            f"{path} holds no settings (its content is not shown: it may be a credential)"
        ) from None


# -- all of them


def read_user_configs(session: ZkSession) -> UserConfigs:
    """Return all settings; an unreadable node is left out with a warning.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    return UserConfigs(_read(session, _entities(session)))


def _entities(session: ZkSession) -> list[str]:
    """Return every node below `/config` that may have settings, as notices name them."""
    users = [f"users/{name}" for name in _children(session, "users")]
    found = [f"{kind}/{name}" for kind in ("clients", "ips") for name in _children(session, kind)]
    stats = session.exists_many([f"{paths.CONFIG}/{user}" for user in users])
    for user, stat in zip(users, stats, strict=True):
        if stat is not None and stat.children:
            found += [f"{user}/clients/{each}" for each in _children(session, f"{user}/clients")]
    return users + found


def _children(session: ZkSession, path: str) -> list[str]:
    return children(session, f"{paths.CONFIG}/{path}")


def _read(session: ZkSession, entities: Iterable[str]) -> dict[ConfigEntity, Settings]:
    """Return the settings of the given nodes, without empty ones."""
    known: dict[str, ConfigEntity] = {}
    for path in entities:
        entity = ConfigEntity.parse(path)
        if entity is None:
            tell_unreadable(session, logger, "settings", f"{paths.CONFIG}/{path}: no such name")
        else:
            known[entity.node] = entity
    found: dict[ConfigEntity, Settings] = {}
    for (node, entity), content in zip(known.items(), session.get_many(list(known)), strict=True):
        try:
            settings = {} if content is None else _decode(node, content[0])
        except RegistryError as error:
            tell_unreadable(session, logger, "settings", error)
            continue
        if settings:
            found[entity] = MappingProxyType(settings)
    return found


class UserConfigsWatch(WatchLoop[UserConfigs]):
    """Keeps all settings up to date; see `WatchLoop`.

    Only the nodes that notices name are read again. After a lost connection all nodes are, because
    every watch fires then.

    Args:
        session: a started session.
        on_change: called with all settings after each change, from the loop's task.
    """

    def __init__(self, session: ZkSession, on_change: Callable[[UserConfigs], object]) -> None:
        super().__init__(session, self._read_changed, on_change, name="watch-user-configs")
        self._all_stale = True
        self._notices = Notices(session, paths.CONFIG_CHANGES)
        self._stale: set[str] = set()
        self._settings: dict[ConfigEntity, Settings] = {}

    def _was_away(self, _: object) -> None:
        self._all_stale = True
        self._loop.set()

    def _read_changed(self, watch: Settable) -> UserConfigs:
        session = self._session
        # Notices are read first: a later change writes a new one.
        noted = self._noted(watch)
        if self._all_stale:
            self._all_stale = False
            try:
                # A watch on a node that never changes: it fires after a lost connection.
                session.exists(paths.USER_CONFIGS, Mark(self._was_away, None))
                self._settings = _read(session, _entities(session))
            except RegistryError:
                self._all_stale = True
                raise
        else:
            self._stale |= noted
            fresh = _read(session, sorted(self._stale))
            gone = {entity for path in self._stale if (entity := ConfigEntity.parse(path))}
            kept = {key: each for key, each in self._settings.items() if key not in gone}
            self._settings = kept | fresh
        self._stale.clear()
        return UserConfigs(MappingProxyType(self._settings))

    def _noted(self, watch: Settable) -> set[str]:
        """Return the users, clients and addresses that new notices name."""
        named = {changed_entity(data) for _, data in self._notices.read_new(watch)}
        return {each for each in named if each and each.startswith(("users/", "clients/", "ips/"))}
