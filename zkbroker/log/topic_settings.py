"""Settings of topics: the broker's defaults with each topic's overrides.

Invariant: until a topic's own settings are known, none of its segments is deleted, and its logs are
recovered as if they were compacted.
"""

import logging
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import TypeAlias

from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import ConfigError
from zkbroker.log.retention import make_policy

logger = logging.getLogger(__name__)

ReadSettings: TypeAlias = Callable[[Set[str]], Mapping[str, Mapping[str, str]]]


class TopicSettings:
    """The effective settings of each topic; its own are given under topic-level names."""

    def __init__(
        self,
        config: LogManagerConfig,
        defaults: LogConfig,
        overrides: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._config = config
        self._defaults = defaults
        self._overrides = {topic: dict(each) for topic, each in overrides.items()}
        self.known = set(self._overrides)
        """Topics whose own settings are known."""
        self.complete = True
        """Whether all stored settings are known, so that an unknown topic has none of its own."""

    def check_defaults(self) -> None:
        """Raise ConfigError if the broker's retention policy cannot be loaded."""
        make_policy(self._defaults, Path(self._config.log_dirs[0]))

    def replace_defaults(self, defaults: LogConfig) -> bool:
        """Replace the settings of topics without their own; False if they are the same."""
        changed, self._defaults = defaults != self._defaults, defaults
        return changed

    def of(self, topic: str) -> LogConfig:
        """Return the effective settings of a topic.

        Raises:
            ConfigError: its overrides are not allowed.
        """
        return self._with(topic, self._overrides.get(topic, {}))

    def _with(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        return self._defaults.with_topic_overrides(
            self._config.topic_overrides(topic) | dict(overrides)
        )

    def are(self, topic: str, overrides: Mapping[str, str]) -> bool:
        """Whether a topic's own settings are these."""
        return dict(overrides) == self._overrides.get(topic, {})

    def set(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Replace a topic's own settings; returns the effective ones.

        Raises:
            ConfigError: they are not allowed; nothing changed.
        """
        config = self._with(topic, overrides)
        make_policy(config, Path(self._config.log_dirs[0]))
        self._overrides[topic] = dict(overrides)
        self.known.add(topic)
        return config

    def learn(self, read: ReadSettings, topics: Set[str]) -> None:
        """Adopt the stored settings of topics; a topic whose settings are invalid stays unknown."""
        self.complete = False
        if not topics:
            return
        for topic, overrides in read(topics).items():
            try:
                self._with(topic, overrides)
            except ConfigError as error:
                logger.warning("topic configuration not applied topic=%s error=%s", topic, error)
                continue
            self._overrides[topic] = dict(overrides)
            self.known.add(topic)
