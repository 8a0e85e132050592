"""A broker in a thread of this process.

Invariant: the broker has its own thread and event loop; test and broker share only the network, so
    a test that blocks does not stop the broker. It cannot be killed or paused like a process; stop
    and start it, or use a broker process.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zkbroker.cluster.listeners import keep_ports, parse_listeners
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ZkbrokerError


class InProcessBroker:
    """One broker in a thread.

    Args:
        directory: where its data directory `broker-ID` lives.
        properties: its properties; `broker.id` is required.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str]) -> None:
        self.id = int(properties["broker.id"])
        self.data_directory = Path(directory) / f"broker-{self.id}"
        self._properties = {
            "host.name": "127.0.0.1",
            "port": "0",
            "log.dirs": str(self.data_directory),
            **properties,
        }
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._wakes: list[Any] = []
        self._failure: Exception | None = None
        self._address: tuple[str, int] | None = None
        self._listeners: Mapping[str, tuple[str, int]] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port on which the broker serves.

        Raises:
            ZkbrokerError: the broker was never ready.
        """
        if self._address is None:
            raise ZkbrokerError(f"broker {self.id} has not been started")
        return self._address

    @property
    def listeners(self) -> Mapping[str, tuple[str, int]]:
        """Listener name → host and port that are advertised; empty before the first start."""
        return self._listeners

    @property
    def alive(self) -> bool:
        """Whether the broker runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def pid(self) -> int | None:
        """This process, while the broker runs."""
        return os.getpid() if self.alive else None

    @property
    def log_path(self) -> Path:
        """Log lines go to this process's logging, not to a file."""
        raise ZkbrokerError(f"broker {self.id} logs through this process's logging")

    def launch(self) -> None:
        """Start without waiting; the port of an earlier run is kept."""
        if self.alive:
            raise ZkbrokerError(f"broker {self.id} is running already")
        keep_ports(self._properties, self._address, self._listeners)
        self._started.clear()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name=f"broker-{self.id}", daemon=True)
        self._thread.start()

    def wait_ready(self, timeout_s: float = 30) -> None:
        """Wait until it serves.

        Raises:
            ZkbrokerError: it could not start.
        """
        if not self.poll_ready(timeout_s):
            raise ZkbrokerError(f"broker {self.id} was not ready within {timeout_s:g} s")

    def poll_ready(self, timeout_s: float = 0) -> bool:
        """Return whether it serves, after `timeout_s` at most.

        Raises:
            ZkbrokerError: it could not start.
        """
        if not self._started.wait(timeout_s):
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def start(self, timeout_s: float = 30) -> None:
        """Start and wait until it serves."""
        self.launch()
        self.wait_ready(timeout_s)

    def request_stop(self) -> None:
        """Ask it to stop, without waiting."""
        for wake in self._wakes:
            wake.send()

    def stop(self, timeout_s: float = 15) -> bool:
        """Stop cleanly; False when it still runs after `timeout_s`."""
        if self._thread is None:
            return True
        self.request_stop()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """Refuse: a thread cannot be killed."""
        raise ZkbrokerError("a broker in this process cannot be killed: leave in_process out")

    def pause(self) -> None:
        """Refuse: a thread cannot be paused."""
        raise ZkbrokerError("a broker in this process cannot be paused: leave in_process out")

    resume = pause

    def ending(self) -> str:
        """A thread ends only when it is asked to."""
        return "has not ended" if self.alive else "was stopped"

    def log_tail(self) -> str:
        """Log lines go to this process's logging."""
        return ""

    def _run(self) -> None:
        # Imported in the broker's own thread: its event loop belongs to that thread.
        import gevent
        import gevent.event

        from zkbroker.broker import BrokerNode

        stop = gevent.event.Event()
        wake = gevent.get_hub().loop.async_()
        wake.start(stop.set)
        self._wakes = [wake]
        try:
            node = BrokerNode(BrokerConfig.from_properties(self._properties))
            node.start()
        except Exception as error:  # noqa: BLE001 - raised by start, in the caller's thread
            # Without wakes: the caller may stop a failed broker while its loop is destroyed.
            self._failure, self._wakes = error, []
            self._started.set()
        else:
            self._address = node.address
            self._listeners = parse_listeners(",".join(node.listeners))
            self._started.set()
            try:
                stop.wait()
            finally:
                node.stop()
        finally:
            self._wakes = []
            wake.close()
            gevent.get_hub().destroy(destroy_loop=True)
