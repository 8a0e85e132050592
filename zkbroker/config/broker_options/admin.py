"""The HTTP page of a broker, and the console on it."""

from dataclasses import dataclass

from zkbroker.config.schema import Bool, Int, Str, StrList, option
from zkbroker.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class AdminOptions:
    """Address and users of the HTTP page, and whether it serves the console."""

    # fmt: off
    admin_port: int = option("admin.port", Int(-1, 65535), -1,
        "Port of the HTTP page with metrics (/metrics, Prometheus form) and client versions "
        "(/clients, JSON); 0 takes a free one, -1 opens none.")
    admin_host: str = option("admin.host", Str(empty=False), "127.0.0.1",
        "Address of the HTTP page.")
    admin_users_file: str = option("admin.users.file", Str(), "",
        "File with the users of the HTTP page, lines `user:hash` of `zkbroker hash-password`; "
        "without it there is no login.")
    admin_console: bool = option("admin.console", Bool(), False,
        "Whether the HTTP page also serves the console of the cluster, under /console/.")
    admin_console_operators: tuple[str, ...] = option("admin.console.operators", StrList(), (),
        "Users of admin.users.file that may change things in the console, separated by commas; "
        "all others can only read.")
    admin_console_config: str = option("admin.console.config", Str(), "",
        "Property file with the client settings by which the console connects to brokers, such as "
        "security.protocol; without it the console connects without TLS and login.")
    # fmt: on

    def _check_console(self) -> None:
        """Check the settings of the console.

        Raises:
            ConfigError: there is no page for it, or no users file for its operators.
        """
        if self.admin_console and self.admin_port < 0:
            raise ConfigError("admin.console=true needs the HTTP page: set admin.port")
        if self.admin_console_operators and not self.admin_users_file:
            raise ConfigError(
                "admin.console.operators names users of admin.users.file: set admin.users.file, too"
            )
