"""The settings of topics, from ZooKeeper to the logs.

Invariant: a log never uses settings that are known to have changed. Nothing is deleted of a topic
whose settings are unknown.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Set

from zkbroker.broker.view import ClusterView
from zkbroker.errors import ConfigError, RegistryError
from zkbroker.log import LogManager
from zkbroker.registry import paths
from zkbroker.registry.topics import decode_config
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)

Settings = Mapping[str, Mapping[str, str]]


def read_settings(session: ZkSession, topics: Set[str]) -> dict[str, Mapping[str, str]]:
    """Return the settings of topics in ZooKeeper, where they can be read.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    wanted = sorted(topics)
    found: dict[str, Mapping[str, str]] = {}
    nodes = session.get_many([paths.topic_config(topic) for topic in wanted])
    for topic, node in zip(wanted, nodes, strict=True):
        try:
            found[topic] = {} if node is None else decode_config(topic, node[0])
        except RegistryError as error:
            logger.warning("topic settings unreadable topic=%s error=%s", topic, error)
    return found


class _Present(Mapping[str, Mapping[str, str]]):
    """The settings of some topics: at each look those in the view, else the ones first found."""

    def __init__(self, found: Settings, view: ClusterView) -> None:
        self._found = found
        self._view = view

    def __getitem__(self, topic: str) -> Mapping[str, str]:
        found = self._found[topic]
        return self._view.topics.configs.get(topic, found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class TopicSettingsSync:
    """Keeps the logs' settings equal to those of the view."""

    def __init__(self, session: ZkSession, logs: LogManager, view: ClusterView) -> None:
        self._session = session
        self._logs = logs
        self._view = view
        self._applied: dict[str, Mapping[str, str]] = {}

    def of(self, topics: Set[str]) -> Settings:
        """Return the settings of topics whose logs are about to be created.

        Settings of a topic that the view does not have yet are read from ZooKeeper. The result
        follows the view: creating many logs takes time, in which settings may change.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        known = self._view.topics.configs
        unknown = topics - known.keys()
        read = read_settings(self._session, unknown) if unknown else {}
        return _Present({topic: known[topic] for topic in topics & known.keys()} | read, self._view)

    def apply(self, topics: TopicsView) -> None:
        """Give changed settings to the logs."""
        for gone in self._applied.keys() - topics.configs.keys():
            del self._applied[gone]
        here = {tp.topic for tp in self._logs.logs()}
        for topic in here & topics.configs.keys():
            settings = topics.configs[topic]
            if self._applied.get(topic) == settings:
                continue
            try:
                self._logs.update_topic_config(topic, settings)
            except ConfigError as error:
                logger.warning("topic configuration not applied topic=%s error=%s", topic, error)
            else:
                self._applied[topic] = settings


def settings_for_recovery(connected: Callable[[], ZkSession], topics: Set[str]) -> Settings:
    """Return the settings of topics whose logs are to be recovered.

    Without ZooKeeper there are none: recovery then treats the settings as unknown.
    """
    try:
        return read_settings(connected(), topics)
    except RegistryError as error:
        logger.warning("topic settings not read before recovery error=%s", error)
        return {}
