"""Notices of changed settings: of topics, brokers, users, clients and addresses.

    /config/changes/config_change_[seq]
        {"version":2,"entity_path":"users/alice/clients/c1"}             0.10.1 and later
        {"version":1,"entity_type":"topics","entity_name":"t"}           0.9, 0.10.0
        "t" | 't'                                                        0.8.2: topics only

Invariant: a notice is written after the change that it names, so that a broker that reads after the
notice reads the change.
"""

from typing import Any

from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, write_json
from zkbroker.zookeeper.session import ZkSession


def note_change(session: ZkSession, entity: str) -> None:
    """Write a notice of changed settings.

    Args:
        session: a started session.
        entity: the node of the settings, relative to `/config`, such as `topics/t`.
    """
    note = write_json({"version": 2, "entity_path": entity})
    session.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True, parents=True)


def changed_entity(data: bytes) -> str | None:
    """Return the node that a notice of any generation names, relative to `/config`.

    Returns:
        None if the notice cannot be read.
    """
    try:
        note: Any = read_json(data)
    except ValueError:
        return None
    if isinstance(note, str):
        return f"topics/{note}"
    if not isinstance(note, dict):
        return None
    if note.get("version") == 1:
        return f"{note.get('entity_type')}/{note.get('entity_name')}"
    return str(note.get("entity_path", "")) if note.get("version") == 2 else None
