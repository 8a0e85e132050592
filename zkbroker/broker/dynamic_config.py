"""The configuration of a running broker, with the changes since its start.

    ZooKeeper (`/config/brokers`) --take--> checked, merged --> `config` --> every part

Invariant: an invalid setting changes nothing and is named in the log; the others apply. Every part
gets each new configuration, in the order in which the parts registered.
"""

import logging
from collections.abc import Callable, Mapping

from zkbroker.config.broker import BrokerConfig
from zkbroker.config.dynamic import WITHOUT_EFFECT, changed_config, check_change
from zkbroker.errors import ConfigError, ProtocolError
from zkbroker.registry.broker_configs import BrokerSettings

logger = logging.getLogger(__name__)


class DynamicConfig:
    """The present configuration; the static one is that with which the broker was started."""

    def __init__(self, static: BrokerConfig) -> None:
        self.static = static
        self.config = static
        """The present configuration."""
        self.settings = BrokerSettings()
        """The valid settings from ZooKeeper in it."""
        self._taken = BrokerSettings()
        self._parts: list[Callable[[DynamicConfig], object]] = []
        self._looks: list[Callable[[BrokerConfig], object]] = []

    @property
    def changed(self) -> Mapping[str, str]:
        """The present settings from ZooKeeper."""
        return {**self.settings.of_all, **self.settings.own}

    def on_change(self, part: Callable[["DynamicConfig"], object]) -> None:
        """Call a part with the configuration, now and after each change."""
        self._parts.append(part)
        part(self)

    def on_check(self, look: Callable[[BrokerConfig], object]) -> None:
        """Add a check of settings before they are stored; `look` raises `ConfigError`."""
        self._looks.append(look)

    def take(self, settings: BrokerSettings) -> None:
        """Apply the settings that ZooKeeper has for this broker."""
        if settings == self._taken:
            return
        allowed = allowed_settings(settings, logger.warning)
        try:
            config = changed_config(self.static, allowed.of_all, allowed.own)
        except ConfigError as error:
            logger.warning("broker settings not applied error=%s", error)
            self._taken = settings
            return
        before = self.changed
        self.config, self.settings = config, allowed
        if self.changed != before:
            logger.info("broker settings changed settings=%s", dict(sorted(self.changed.items())))
        for key in sorted(self.changed.keys() & WITHOUT_EFFECT.keys()):
            if self.changed[key] != before.get(key):
                logger.warning("config key=%s has no effect: %s", key, WITHOUT_EFFECT[key])
        for part in self._parts:
            part(self)
        # If a part fails, the watch applies them again.
        self._taken = settings

    def check(self, of_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Check settings before they are stored.

        Raises:
            ProtocolError: INVALID_REQUEST: one of them may not change while a broker runs.
            ConfigError: a value is invalid, or the settings contradict each other.
        """
        for key, text in {**of_all, **own}.items():
            check_change(key, text)
        config = changed_config(self.static, of_all, own)
        for look in self._looks:
            look(config)


def allowed_settings(
    settings: BrokerSettings, warn: Callable[[str, str, Exception], object] | None = None
) -> BrokerSettings:
    """Return the valid settings.

    Args:
        settings: from ZooKeeper, perhaps written by a tool that checks nothing.
        warn: called with a format, a key and the reason for each invalid setting.
    """

    def allowed(given: Mapping[str, str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, text in given.items():
            try:
                check_change(key, text)
            except (ProtocolError, ConfigError) as error:
                if warn is not None:
                    warn("broker setting ignored key=%s error=%s", key, error)
            else:
                found[key] = text
        return found

    return BrokerSettings(allowed(settings.of_all), allowed(settings.own))
