"""Concurrency behind one small interface, on threads or on gevent.

Invariant: library code above this floor never imports `threading`, `queue`, `socket` or `gevent`
for concurrency; it takes a `Runtime`. So the same code runs on operating system threads and on
greenlets, without monkey-patching, and is also correct where a program did monkey-patch (the
threads runtime then runs on greenlets by itself).
"""

from zkbroker.errors import ConfigError
from zkbroker.runtime.base import Event, Lock, Queue, QueueEmpty, QueueFull, Runtime, Task

__all__ = [
    "Event",
    "Lock",
    "Queue",
    "QueueEmpty",
    "QueueFull",
    "Runtime",
    "Task",
    "get_runtime",
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
    # Imported when asked for: importing gevent costs time and memory that a user of threads, such
    # as a Spark worker, should not pay.
    if name == "threads":
        from zkbroker.runtime.threads import ThreadsRuntime

        return ThreadsRuntime()
    if name == "gevent":
        from zkbroker.runtime.greenlets import GreenletsRuntime

        return GreenletsRuntime()
    raise ConfigError(f"runtime={name!r} is not allowed: give threads or gevent")
