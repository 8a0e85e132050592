"""Concurrency behind one small interface, on threads or on gevent.

Invariant: all code that clients use (everything but the broker) takes a `Runtime` for tasks,
events, locks, queues and sockets. The same code thus runs on operating system threads and on
greenlets without monkey-patching, and is also correct in a monkey-patched program (the threads
runtime then runs on greenlets by itself). The broker runs only on gevent: its own rooms (`broker`,
`network.server`) and `testing.in_process`, which runs a broker in a thread, import gevent
themselves; an import-linter contract names them. Only programs (`cli`, `testing`) start threads
beside a runtime, and a few counters are guarded by operating system locks.
"""

from zkbroker.errors import ConfigError
from zkbroker.runtime.base import (
    Event,
    Lock,
    Park,
    Queue,
    QueueEmpty,
    QueueFull,
    Runtime,
    Task,
    finish_anyway,
    unparked,
)
from zkbroker.runtime.owner_loop import OwnerLoop

__all__ = [
    "Event",
    "Lock",
    "OwnerLoop",
    "Park",
    "Queue",
    "QueueEmpty",
    "QueueFull",
    "Runtime",
    "Task",
    "finish_anyway",
    "get_runtime",
    "unparked",
]


def get_runtime(name: str | Runtime = "threads") -> Runtime:
    """Return a runtime by name.

    Args:
        name: `threads` or `gevent`; a runtime is returned as it is.

    Raises:
        ConfigError: there is no such runtime.
    """
    if not isinstance(name, str):
        return name
    # Imported on demand: importing gevent costs time and memory that a user of threads, such as a
    # Spark worker, should not pay.
    if name == "threads":
        from zkbroker.runtime.threads import ThreadsRuntime

        return ThreadsRuntime()
    if name == "gevent":
        from zkbroker.runtime.greenlets import GreenletsRuntime

        return GreenletsRuntime()
    raise ConfigError(f"runtime={name!r} is not allowed: give threads or gevent")
