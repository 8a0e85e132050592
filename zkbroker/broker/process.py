"""A broker as a process: stopped by a signal, or by the failure of its last data directory.

As in genuine brokers, a process that cannot store anything ends: its supervisor must notice, and
new partitions must go to other brokers.
"""

import gc
import logging
import os
import resource
import signal
from collections.abc import Callable

import gevent
import gevent.event

from zkbroker.broker.foundation import outcome
from zkbroker.broker.mounting import Mount
from zkbroker.broker.node import BrokerNode
from zkbroker.config.broker import BrokerConfig
from zkbroker.private_files import PRIVATE_UMASK

logger = logging.getLogger(__name__)


def run(
    config: BrokerConfig,
    on_ready: Callable[[int, str, int, tuple[str, ...]], object] | None = None,
    console: Mount | None = None,
) -> None:
    """Run a broker until SIGINT, SIGTERM or its failure; see `zkbroker.broker.run_broker`."""
    _raise_file_limit()
    # Files that libraries write are private as well.
    os.umask(PRIVATE_UMASK)
    stop = gevent.event.Event()
    handlers = [
        gevent.signal_handler(number, stop.set) for number in (signal.SIGINT, signal.SIGTERM)
    ]
    node = BrokerNode(config, console)
    starting = gevent.spawn(outcome, node.start)
    stopped = gevent.spawn(stop.wait)
    gevent.wait([starting, stopped], count=1)
    if not starting.ready():
        starting.kill()
        return
    failure = starting.get()
    if failure is not None:
        raise failure
    try:
        if on_ready is not None:
            host, port = node.address
            on_ready(node.broker_id, host, port, node.listeners)
        # Loaded objects stay alive: exclude them from garbage collection.
        gc.collect()
        gc.freeze()
        failed = gevent.spawn(node.failed.wait)
        gevent.wait([stopped, failed], count=1)
        failure = node.services.logs.failure()
        if failure is not None:
            logger.error("broker ends: its last data directory failed error=%s", failure)
    finally:
        node.stop()
        for handler in handlers:
            handler.cancel()
    if failure is not None:
        raise failure


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as allowed: a partition takes three, a client one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        logger.warning("open files limited to=%d error=%s", soft, error)
