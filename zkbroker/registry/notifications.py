"""Notes of brokers for the controller: changed ISRs and failed log directories.

    /isr_change_notification/isr_change_[seq]
        {"version":1,"partitions":[{"topic":"t","partition":0}]}
    /log_dir_event_notification/log_dir_event_[seq]   {"version":1,"broker":1,"event":1}

Invariant: the controller removes a note only after it has read the states that the note names, so
that no change is missed if it dies in between.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from zkbroker.registry import paths
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.node_json import int32, read_json, write_json
from zkbroker.registry.optional_nodes import children
from zkbroker.registry.partition_states import Key
from zkbroker.zookeeper.nodes import Delete, Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOG_DIR_FAILED = 1
_OF_A_NOTE = 2000
"""The most partitions in one note: even with the longest names they fit into a node (1 MB)."""


def note_isr_changes(session: ZkSession, keys: Iterable[Key]) -> None:
    """Notify the controller of partitions whose ISR this broker has changed."""
    partitions = [{"topic": topic, "partition": number} for topic, number in keys]
    for start in range(0, len(partitions), _OF_A_NOTE):
        some = partitions[start : start + _OF_A_NOTE]
        note = write_json({"version": 1, "partitions": some})
        session.create(paths.ISR_CHANGE_PREFIX, note, sequential=True, parents=True)


def note_log_dir_failure(session: ZkSession, broker_id: int) -> None:
    """Notify the controller that a log directory of a broker failed."""
    note = write_json({"version": 1, "broker": broker_id, "event": LOG_DIR_FAILED})
    session.create(paths.LOG_DIR_EVENT_PREFIX, note, sequential=True, parents=True)


def isr_changes(
    session: ZkSession, watch: Settable | None = None
) -> tuple[list[str], dict[Key, None]]:
    """Return the paths of the notes about ISRs, and the partitions that they name."""

    def named(note: Any) -> Iterable[Key]:
        return ((str(each["topic"]), int32(each["partition"])) for each in note["partitions"])

    return _notes(session, paths.ISR_CHANGES, watch, named)


def log_dir_failures(
    session: ZkSession, watch: Settable | None = None
) -> tuple[list[str], dict[int, None]]:
    """Return the paths of the notes about log directories, and the brokers that they name."""
    return _notes(session, paths.LOG_DIR_EVENTS, watch, lambda note: [int32(note["broker"])])


def remove_notes(session: ZkSession, notes: Sequence[str], epoch_version: int) -> None:
    """Remove notes that were read.

    Raises:
        ControllerMoved: there is another controller, which reads the notes again.
    """
    controller_transactions(session, [Delete(path) for path in notes], epoch_version)


def _notes(
    session: ZkSession, parent: str, watch: Settable | None, named: Callable[[Any], Iterable[T]]
) -> tuple[list[str], dict[T, None]]:
    """Return the paths of all notes, and what they name, as far as they can be read."""
    found = [f"{parent}/{name}" for name in children(session, parent, watch)]
    nodes = zip(found, session.get_many(found), strict=True)
    notes = {path: node[0] for path, node in nodes if node is not None}
    subjects: dict[T, None] = {}
    for path, data in notes.items():
        try:
            for each in named(read_json(data)):
                subjects[each] = None
        except (ValueError, TypeError, KeyError) as error:
            logger.warning("note unreadable path=%s error=%s", path, error)
    return list(notes), subjects
