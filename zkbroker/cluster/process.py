"""One broker as a child process.

    new --start--> starting --"ready" line--> serving --stop/kill--> stopped --start--> ...
                       |                         |
                       +--- exits: start raises, with the end of the broker's log

The child runs `zkbroker broker FILE --stop-with-stdin`: it holds the reading end of a pipe whose
writing end is here, and stops cleanly when that closes, however this process ends.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from zkbroker.cluster.listeners import keep_ports, parse_listeners
from zkbroker.cluster.python_child import python_command, python_environment
from zkbroker.errors import ZkbrokerError
from zkbroker.private_files import make_private_directory, open_private, write_private

READY_PREFIX = "zkbroker broker ready "
ERROR_PREFIX = "error: "
_LOG_TAIL_LINES = 15


class BrokerProcess:
    """A broker process with its property file and log file in a directory.

    Args:
        directory: where `broker-ID.properties`, `broker-ID.log` and the data directory
            `broker-ID` live; made when missing.
        properties: the broker's properties; `broker.id` is required, `log.dirs` defaults to the
            data directory, `port` to a free one, `host.name` to 127.0.0.1.
        environment: variables added to the child's environment.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.id = int(properties["broker.id"])
        self.directory = Path(directory)
        self.data_directory = self.directory / f"broker-{self.id}"
        self.log_path = self.directory / f"broker-{self.id}.log"
        self._properties_path = self.directory / f"broker-{self.id}.properties"
        self._properties = {
            "host.name": "127.0.0.1",
            "port": "0",
            "log.dirs": str(self.data_directory),
            **properties,
        }
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None
        self._address: tuple[str, int] | None = None
        self.listeners: Mapping[str, tuple[str, int]] = {}
        """Listener name → host and port that are advertised; empty before the first start."""

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
    def pid(self) -> int | None:
        """Process id while the process exists."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process exists, also when paused."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process without waiting for it; the port of an earlier run is kept."""
        if self.alive:
            raise ZkbrokerError(f"broker {self.id} is running already")
        make_private_directory(self.directory)
        keep_ports(self._properties, self._address, self.listeners)
        lines = [f"{key}={_escape(value)}" for key, value in self._properties.items()]
        write_private(self._properties_path, ("\n".join(lines) + "\n").encode())
        command = python_command("zkbroker.cli", "broker", str(self._properties_path))
        with open_private(self.log_path, os.O_APPEND) as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [*command, "--stop-with-stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Its own session: Ctrl-C in a terminal reaches only this process, which stops it in
                # order.
                start_new_session=True,
                env=python_environment(self._environment),
            )

    def wait_ready(self, timeout_s: float = 30) -> None:
        """Wait until the broker serves.

        Raises:
            ZkbrokerError: it exited, or was not ready in time; the message ends with its log.
        """
        if not self.poll_ready(timeout_s):
            self.kill()
            raise ZkbrokerError(
                f"broker {self.id} was not ready within {timeout_s:g} s:\n{self.log_tail()}"
            )

    def poll_ready(self, timeout_s: float = 0) -> bool:
        """Return whether the launched broker serves, after `timeout_s` at most.

        Raises:
            ZkbrokerError: it exited.
        """
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while selector.select(max(0.0, deadline - time.monotonic())):
                line = process.stdout.readline()
                if line.startswith(READY_PREFIX):
                    fields = dict(part.split("=", 1) for part in line.split()[3:])
                    host, _, port = fields["address"].rpartition(":")
                    self._address = (host.strip("[]"), int(port))
                    self.listeners = parse_listeners(fields.get("listeners", ""))
                    return True
                if not line:
                    process.wait()
                    self._close_pipes()
                    raise ZkbrokerError(
                        f"broker {self.id} {self.ending()} before it was ready: {self._reason()}"
                    )
        return False

    def start(self, timeout_s: float = 30) -> None:
        """Start the process and wait until it serves."""
        self.launch()
        self.wait_ready(timeout_s)

    def stop(self, timeout_s: float = 15) -> bool:
        """Stop cleanly: deregister, flush, exit. Killed when it takes longer than `timeout_s`.

        Returns:
            Whether it stopped by itself.
        """
        process = self._process
        if process is None:
            return True
        self.request_stop()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._close_pipes()
        return True

    def request_stop(self) -> None:
        """Ask the process to stop cleanly, without waiting for it."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
                # A paused process could not stop.
                self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._close_pipes()

    def pause(self) -> None:
        """Suspend the process, as a long garbage collection or a swapping host would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ending(self) -> str:
        """Return how the process ended: `exited with status 1`, `was ended by SIGKILL`."""
        status = None if self._process is None else self._process.poll()
        if status is None:
            return "has not ended"
        if status >= 0:
            return f"exited with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"

    def log_tail(self) -> str:
        """Return the last lines of the broker's log."""
        try:
            text = self.log_path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-_LOG_TAIL_LINES:])

    def _reason(self) -> str:
        """Return the error of the command, or else the end of the log."""
        tail = self.log_tail()
        errors = [line for line in tail.splitlines() if line.startswith(ERROR_PREFIX)]
        return errors[-1].removeprefix(ERROR_PREFIX) if errors else f"its log ends\n{tail}"

    def _close_pipes(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\")
