"""The settings of users, clients and addresses in a running broker: quotas, SCRAM credentials.

    ZooKeeper (`/config/users`, `/config/clients`, `/config/ips`) --take--> `now` --> every part

Invariant: every part is given each new view, in the order in which it registered; a view never
changes once it is given. While ZooKeeper is away the last view holds.
"""

from collections.abc import Callable

from zkbroker.registry.user_configs import UserConfigs


class UserSettings:
    """What holds now. Nothing is known before the first `take`."""

    def __init__(self) -> None:
        self.now = UserConfigs()
        """The newest view."""
        self._parts: list[Callable[[UserConfigs], object]] = []

    def on_change(self, part: Callable[[UserConfigs], object]) -> None:
        """Have a part given what holds: now, and after each change."""
        self._parts.append(part)
        part(self.now)

    def take(self, configs: UserConfigs) -> None:
        """Take what ZooKeeper has."""
        self.now = configs
        for part in self._parts:
            part(configs)
