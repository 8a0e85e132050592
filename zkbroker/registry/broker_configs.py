"""Dynamic broker settings: those that change while the brokers run.

    /config/brokers/[id]            {"version":1,"config":{"leader.replication.throttled.rate":"1"}}
    /config/brokers/<default>       the same, for all brokers
    /config/changes/config_change_  {"version":2,"entity_path":"brokers/[id]"}

Invariant: the notice follows the change, so that a broker that reads after the notice reads the
change. A node stays when its last setting is removed, as with genuine tools.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.config_changes import note_change
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.optional_nodes import read_node
from zkbroker.registry.topics import decode_settings, encode_config
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The dynamic settings of a broker: those of all brokers, and its own, which override them."""

    of_all: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def broker_config(session: ZkSession, broker_id: int | None) -> dict[str, str]:
    """Return the settings of a broker, or of all brokers.

    Args:
        session: a started session.
        broker_id: the broker; None for the settings of all brokers.

    Raises:
        RegistryError: the node cannot be read.
    """
    path = paths.broker_config(broker_id)
    return decode_settings(path, _read(session, path))


def broker_settings(
    session: ZkSession, broker_id: int, watch: Settable | None = None
) -> BrokerSettings:
    """Return all dynamic settings of a broker; an unreadable node counts as empty.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    found: list[dict[str, str]] = []
    for path in (paths.broker_config(None), paths.broker_config(broker_id)):
        data = _read(session, path, watch)
        try:
            found.append(decode_settings(path, data))
        except RegistryError as error:
            tell_unreadable(session, logger, "broker settings", error)
            found.append({})
    return BrokerSettings(*found)


def _read(session: ZkSession, path: str, watch: Settable | None = None) -> bytes:
    """Return the content of a node, empty for a missing one; the watch is set in both cases."""
    found = read_node(session, path, watch)
    return b"" if found is None else found[0]


class BrokerConfigWatch(WatchLoop[BrokerSettings]):
    """Keeps the settings of a broker up to date; see `WatchLoop`."""

    def __init__(
        self, session: ZkSession, broker_id: int, on_change: Callable[[BrokerSettings], object]
    ) -> None:
        super().__init__(
            session,
            lambda watch: broker_settings(session, broker_id, watch),
            on_change,
            name="watch-broker-config",
        )


def set_broker_config(session: ZkSession, broker_id: int | None, config: Mapping[str, str]) -> None:
    """Replace the settings of a broker, or of all brokers for None, and notify the brokers."""
    path = paths.broker_config(broker_id)
    session.ensure_path(path)
    session.set(path, encode_config(config))
    note_change(session, path.removeprefix(f"{paths.CONFIG}/"))
