"""Keeps all topics, their settings and the requested deletions up to date.

    /brokers/topics        children: topics are created and deleted
    /brokers/topics/[t]    data: partitions are added, an assignment is filled in late
    /config/changes        children: name the topics whose settings changed
    /admin/delete_topics   children: topics to delete

Invariant: only changed nodes are read again. After a lost connection all of them are, because every
watch fires then. Each change purges notifications that are older than 15 minutes.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zkbroker.errors import InvalidTopic, RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.notices import Notices
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.registry.topics import (
    Assignment,
    changed_topic,
    decode_assignment,
    decode_config,
    list_topics,
    topics_to_delete,
)
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import Mark, WatchLoop

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicsView:
    """The state of all topics in ZooKeeper.

    Attributes:
        assignments: topic → partition → broker ids.
        configs: topic → its settings; every topic of `assignments` is in it.
        deleting: topics whose deletion was requested.
    """

    assignments: Mapping[str, Assignment]
    configs: Mapping[str, Mapping[str, str]]
    deleting: frozenset[str]


class TopicsReader:
    """Reads views; each reading fetches only changed nodes. For one task at a time.

    Args:
        session: a started session.
        changed: set when a view must be read again.
    """

    def __init__(self, session: ZkSession, changed: Settable) -> None:
        self._session = session
        self._changed = changed
        self._marks_lock = session.runtime.lock()
        self._marked: set[str] = set()
        self._assignments: dict[str, Assignment] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._known: set[str] = set()
        self._notices = Notices(session, paths.CONFIG_CHANGES)
        # Topics whose settings changed and were not read yet, since a reading failed.
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
            # Notifications are read before the settings: a later change writes a new one.
            self._stale_configs |= appeared | ((marked | self._noted(watch)) & names)
            # A topic that is gone by now has no watch: if it is created again, it has appeared.
            names -= self._read_assignments(sorted(appeared | (marked & names)))
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

    def _read_assignments(self, names: list[str]) -> set[str]:
        """Read assignments, each with a watch; returns the topics that do not exist."""
        gone: set[str] = set()
        nodes = self._session.get_many(
            [paths.topic(name) for name in names], [Mark(self._mark, name) for name in names]
        )
        for name, node in zip(names, nodes, strict=True):
            self._assignments.pop(name, None)
            if node is None:
                self._configs.pop(name, None)
                gone.add(name)
                continue
            try:
                check_topic_name(name)
                self._assignments[name] = decode_assignment(name, node[0])
            except (RegistryError, InvalidTopic) as error:
                tell_unreadable(self._session, logger, "topic", error)
        return gone

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
        """Return the topics that new notifications name."""
        notices = self._notices.read_new(watch)
        self._notices.purge()
        return {name for _, data in notices if (name := changed_topic(data)) is not None}


class TopicsWatch(WatchLoop[TopicsView]):
    """Keeps a view of all topics up to date; see `WatchLoop`.

    Args:
        session: a started session.
        on_change: called with every new view, from the loop's task.
    """

    def __init__(self, session: ZkSession, on_change: Callable[[TopicsView], object]) -> None:
        super().__init__(session, lambda watch: reader.read(), on_change, name="watch-topics")
        reader = TopicsReader(session, self._loop)
