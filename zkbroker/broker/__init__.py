"""The broker: one handler per API, delayed fetches, and the node that puts everything together."""

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkbroker.broker.mounting import Mount
    from zkbroker.broker.node import BrokerNode
    from zkbroker.config.broker import BrokerConfig

__all__ = ["BrokerNode", "run_broker"]

_GC_THRESHOLD = 10_000


def run_broker(
    config: "BrokerConfig",
    on_ready: Callable[[int, str, int, tuple[str, ...]], object] | None = None,
    console: "Mount | None" = None,
) -> None:
    """Run a broker in this process until SIGINT or SIGTERM.

    Args:
        config: its settings.
        on_ready: called once it serves, with broker id, host and port of the first listener, and
            all advertised listeners, `NAME://host:port` each.
        console: makes the console on its admin page, if the settings ask for one.

    Raises:
        ZkbrokerError: it cannot start.
        StorageError: its last data directory failed.
    """
    # Imported objects stay alive: collecting garbage among them takes a fifth of the start.
    gc.disable()
    try:
        from zkbroker.broker.process import run
    finally:
        gc.freeze()
        gc.set_threshold(_GC_THRESHOLD)
        gc.enable()
    run(config, on_ready, console)


def __getattr__(name: str) -> object:
    # Imported on demand: a command line that only parses a properties file needs no server.
    if name == "BrokerNode":
        from zkbroker.broker.node import BrokerNode

        return BrokerNode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
