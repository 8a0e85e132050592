"""All topics, their settings and the deletions asked for, kept up to date.

    /brokers/topics        children: topics come and go
    /brokers/topics/[t]    data: partitions are added, an assignment is filled in late
    /config/changes        children: which topic's settings to read again
    /admin/delete_topics   children

Invariant: only what changed is read again; after the connection was away everything is, because
every watch fires then. Notifications older than 15 minutes are purged, as genuine brokers do.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zkbroker.errors import InvalidTopic, RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.registry.topics import (
    Assignment,
    changed_topic,
    decode_assignment,
    decode_config,
    list_topics,
    topics_to_delete,
)
from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import Mark, WatchLoop

logger = logging.getLogger(__name__)

NOTIFICATION_KEPT_S = 15 * 60


@dataclass(frozen=True, slots=True)
class TopicsView:
    """What ZooKeeper says about all topics.

    Attributes:
        assignments: topic → partition → broker ids.
        configs: topic → its settings; every topic of `assignments` is in it.
        deleting: topics whose deletion was asked for.
    """

    assignments: Mapping[str, Assignment]
    configs: Mapping[str, Mapping[str, str]]
    deleting: frozenset[str]


class TopicsReader:
    """Reads the view again and again, each time only what changed. For one task at a time.

    Args:
        session: a started session.
        changed: set when it is to be read again.
    """

    def __init__(self, session: ZkSession, changed: Settable) -> None:
        self._session = session
        self._changed = changed
        self._marks_lock = session.runtime.lock()
        self._marked: set[str] = set()
        self._assignments: dict[str, Assignment] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._known: set[str] = set()
        self._notes_seen: set[str] = set()
        # What a reading found changed and could not read to the end: the next one reads it.
        self._stale_configs: set[str] = set()

    def _mark(self, name: str) -> None:
        with self._marks_lock:
            self._marked.add(name)
        self._changed.set()

    def read(self) -> TopicsView:
        """Return the newest view.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        watch = self._changed
        names = set(list_topics(self._session, watch))
        for gone in self._known - names:
            self._assignments.pop(gone, None)
            self._configs.pop(gone, None)
        appeared = names - self._known
        self._known &= names
        with self._marks_lock:
            marked, self._marked = self._marked, set()
        try:
            # Before the settings are read: a change after this reading leaves a new notification.
            self._stale_configs |= appeared | ((marked | self._noted(watch)) & names)
            self._read_assignments(sorted(appeared | (marked & names)))
            self._read_configs(sorted(self._stale_configs & names))
        except RegistryError:
            with self._marks_lock:
                self._marked |= marked
            raise
        self._stale_configs.clear()
        self._known = names
        return TopicsView(
            MappingProxyType(dict(self._assignments)),
            MappingProxyType({name: self._configs.get(name, {}) for name in self._assignments}),
            frozenset(topics_to_delete(self._session, watch)),
        )

    def _read_assignments(self, names: list[str]) -> None:
        nodes = self._session.get_many(
            [paths.topic(name) for name in names], [Mark(self._mark, name) for name in names]
        )
        for name, node in zip(names, nodes, strict=True):
            self._assignments.pop(name, None)
            if node is None:
                continue
            try:
                check_topic_name(name)
                self._assignments[name] = decode_assignment(name, node[0])
            except (RegistryError, InvalidTopic) as error:
                tell_unreadable(self._session, logger, "topic", error)

    def _read_configs(self, names: list[str]) -> None:
        nodes = self._session.get_many([paths.topic_config(name) for name in names])
        for name, node in zip(names, nodes, strict=True):
            try:
                settings = decode_config(name, node[0]) if node is not None else {}
            except RegistryError as error:
                tell_unreadable(self._session, logger, "topic settings", error)
                settings = {}
            self._configs[name] = MappingProxyType(settings)

    def _noted(self, watch: Settable) -> set[str]:
        """Return the topics that notifications not seen before name."""
        while True:
            try:
                notes = set(self._session.children(paths.CONFIG_CHANGES, watch))
                break
            except NoNode:
                self._session.ensure_path(paths.CONFIG_CHANGES)
        fresh = sorted(notes - self._notes_seen)
        nodes = self._session.get_many([f"{paths.CONFIG_CHANGES}/{note}" for note in fresh])
        self._notes_seen = notes
        found = [node for node in nodes if node is not None]
        self._purge(
            note
            for note, node in zip(fresh, nodes, strict=True)
            if node is not None and node[1].ctime_ms < (time.time() - NOTIFICATION_KEPT_S) * 1000
        )
        return {name for data, _ in found if (name := changed_topic(data)) is not None}

    def _purge(self, notes: Iterable[str]) -> None:
        for note in notes:
            with contextlib.suppress(RegistryError):
                self._session.delete(f"{paths.CONFIG_CHANGES}/{note}", missing_ok=True)


class TopicsWatch(WatchLoop[TopicsView]):
    """Keep a view of all topics up to date; see `WatchLoop`.

    Args:
        session: a started session.
        on_change: called with every new view, from the loop's task.
    """

    def __init__(self, session: ZkSession, on_change: Callable[[TopicsView], object]) -> None:
        super().__init__(session, lambda watch: reader.read(), on_change, name="watch-topics")
        reader = TopicsReader(session, self._loop)
