"""Takes the admin port, where `admin.port` asks for one.

Invariant: its library, an extra, is imported by brokers that have such a port, and by no others.
"""

import os
from typing import TYPE_CHECKING

from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from zkbroker.broker.exposition import MetricsPage


def open_metrics_page(config: BrokerConfig) -> "MetricsPage":
    """Listen on the admin port; the page is empty until it is shown a broker.

    Raises:
        ConfigError: the library is not installed.
        StorageError: the port cannot be had.
    """
    # Imported when wanted: it costs a small broker memory.
    try:
        from zkbroker.broker.exposition import MetricsPage
    except ImportError as error:
        raise ConfigError(
            "admin.port needs the metrics extra: pip install 'zkbroker[metrics]', or leave "
            "admin.port out"
        ) from error
    page = MetricsPage(config.admin_host, config.admin_port)
    try:
        page.start()
    except OSError as error:
        raise StorageError(
            f"cannot listen on admin.port {config.admin_host}:{config.admin_port}: "
            f"{os.strerror(error.errno) if error.errno else error}; stop what uses the port, "
            "or set another admin.port"
        ) from error
    return page
