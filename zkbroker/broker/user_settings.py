"""The settings of users, clients and addresses in a running broker: quotas, SCRAM credentials.

    ZooKeeper (`/config/users`, `/config/clients`, `/config/ips`) --take--> `now` --> every part

Invariant: every part gets each new view, in the order in which the parts registered; a view never
changes. While ZooKeeper is away the last view stays in force.
"""

from collections.abc import Callable

from zkbroker.broker.quotas.table import tell_invalid_quotas
from zkbroker.registry.user_configs import UserConfigs


class UserSettings:
    """The present settings; empty before the first `take`."""

    def __init__(self) -> None:
        self.now = UserConfigs()
        """The newest view."""
        self._parts: list[Callable[[UserConfigs], object]] = []

    def on_change(self, part: Callable[[UserConfigs], object]) -> None:
        """Call a part with the settings, now and after each change."""
        self._parts.append(part)
        part(self.now)

    def take(self, configs: UserConfigs) -> None:
        """Apply the settings in ZooKeeper."""
        before, self.now = self.now, configs
        tell_invalid_quotas(before, configs)
        for part in self._parts:
            part(configs)
