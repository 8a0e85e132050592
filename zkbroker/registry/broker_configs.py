"""Settings of brokers that change while they run.

    /config/brokers/[id]            {"version":1,"config":{"leader.replication.throttled.rate":"1"}}
    /config/brokers/<default>       the same, for all brokers
    /config/changes/config_change_  {"version":2,"entity_path":"brokers/[id]"}

Invariant: a change is written first and notified after, so that a broker that reads upon the
notification reads the change. An empty set of settings stays as a node, as genuine tools leave it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.config_changes import note_change
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.topics import decode_settings, encode_config
from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What ZooKeeper has for a broker: settings of all brokers, and its own, which win."""

    of_all: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


def broker_config(
    session: ZkSession, broker_id: int | None, watch: Settable | None = None
) -> dict[str, str]:
    """Return the settings of a broker, or of all brokers.

    Args:
        session: a started session.
        broker_id: the broker; None for the settings of all brokers.
        watch: set when they change, or when the first ones are written.

    Raises:
        RegistryError: the node holds something else.
    """
    path = paths.broker_config(broker_id)
    return decode_settings(path, _read(session, path, watch))


def broker_settings(
    session: ZkSession, broker_id: int, watch: Settable | None = None
) -> BrokerSettings:
    """Return all settings that ZooKeeper has for a broker; a node that is unreadable has none.

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


def _read(session: ZkSession, path: str, watch: Settable | None) -> bytes:
    """Return what a node holds, nothing where there is none; the watch stays in both cases."""
    if watch is not None and session.exists(path, watch) is None:
        return b""
    try:
        return session.get(path)[0]
    except NoNode:
        return b""


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
