"""Dynamic settings of single brokers.

    /config/brokers/[id]            {"version":1,"config":{"leader.replication.throttled.rate":"1"}}
    /config/changes/config_change_  {"version":2,"entity_path":"brokers/[id]"}

Invariant: a change is written first and notified after, so that whoever reads upon the notification
reads the change. An empty set of settings stays as a node, as genuine tools leave it.
"""

import json
from collections.abc import Callable

from zkbroker.registry import paths
from zkbroker.registry.topics import decode_settings, encode_config
from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import WatchLoop


def broker_config(
    session: ZkSession, broker_id: int, watch: Settable | None = None
) -> dict[str, str]:
    """Return the dynamic settings of a broker.

    Args:
        session: a started session.
        broker_id: whose.
        watch: set when they change, or when there are some at last.

    Raises:
        RegistryError: the node holds something else.
    """
    path = paths.broker_config(broker_id)
    if watch is not None and session.exists(path, watch) is None:
        return {}
    try:
        return decode_settings(path, session.get(path)[0])
    except NoNode:
        return {}


class BrokerConfigWatch(WatchLoop[dict[str, str]]):
    """Keeps the dynamic settings of a broker up to date; see `WatchLoop`."""

    def __init__(
        self, session: ZkSession, broker_id: int, on_change: Callable[[dict[str, str]], object]
    ) -> None:
        super().__init__(
            session,
            lambda watch: broker_config(session, broker_id, watch),
            on_change,
            name="watch-broker-config",
        )


def set_broker_config(session: ZkSession, broker_id: int, config: dict[str, str]) -> None:
    """Replace the dynamic settings of a broker and notify the brokers."""
    path = paths.broker_config(broker_id)
    session.ensure_path(path)
    session.set(path, encode_config(config))
    note = json.dumps({"version": 2, "entity_path": f"brokers/{broker_id}"}, separators=(",", ":"))
    session.create(paths.CONFIG_CHANGE_PREFIX, note.encode(), sequential=True, parents=True)
