"""Binds the admin port if `admin.port` is set.

Invariant: only brokers with an admin port import its library, which is an extra.
"""

import ipaddress
import logging
import os
import time
from typing import TYPE_CHECKING

from zkbroker.broker.admin_access import AdminAccess
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.broker_security import REQUIRED
from zkbroker.errors import ConfigError, StorageError
from zkbroker.runtime import get_runtime
from zkbroker.security.tls.contexts import Reloaded, make_server_context

if TYPE_CHECKING:
    from zkbroker.broker.admin_page import MetricsPage

logger = logging.getLogger(__name__)


def open_metrics_page(config: BrokerConfig) -> "MetricsPage":
    """Listen on the admin port; the page is empty until it is shown a broker.

    Raises:
        ConfigError: the library is not installed, or the file of users or the keys cannot be used.
        StorageError: the port cannot be bound.
    """
    # Imported on demand: it costs a small broker memory.
    try:
        from zkbroker.broker.admin_page import MetricsPage
    except ImportError as error:
        raise ConfigError(
            "admin.port needs the metrics extra: pip install 'zkbroker[metrics]', or leave "
            "admin.port out"
        ) from error
    access = None
    if config.admin_users_file:
        access = AdminAccess(config.admin_users_file, get_runtime("gevent"), time.monotonic)
    elif not is_loopback(config.admin_host) and not _asks_for_certificates(config):
        logger.warning(
            "admin page has no login address=%s: set admin.users.file",
            config.admin_host,
        )
    contexts = None
    if config.admin_tls is not None:
        auth = config.admin_tls.client_auth
        contexts = Reloaded(
            config.admin_tls.tls, lambda tls: make_server_context(tls, auth, kernel=False)
        ).context
    page = MetricsPage(
        config.admin_host, config.admin_port, access, contexts, mounting=config.admin_console
    )
    try:
        page.start()
    except OSError as error:
        raise StorageError(
            f"cannot listen on admin.port {config.admin_host}:{config.admin_port}: "
            f"{os.strerror(error.errno) if error.errno else error}; stop what uses the port, "
            "or set another admin.port"
        ) from error
    return page


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _asks_for_certificates(config: BrokerConfig) -> bool:
    return config.admin_tls is not None and config.admin_tls.client_auth == REQUIRED
