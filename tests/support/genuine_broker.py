"""A genuine Kafka 0.8.2.2 broker as a process, from the jars that `make java-clients` fetches."""

import contextlib
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support import java_clients
from tests.support.brokers import SESSION_MS
from tests.support.process import wait_until
from tests.support.zookeeper import end_sessions_of
from zkbroker.registry import paths
from zkbroker.zookeeper.embedded import free_port
from zkbroker.zookeeper.session import ZkSession

START_S = 180


class GenuineBroker:
    """One broker; `start` may be called again after `stop` or `kill`.

    Args:
        directory: for its property and log file.
        connect: the ZooKeeper connect string.
        log_dir: its data directory.
        properties: more of its properties.
        java: options of Java in place of those for short runs.
    """

    def __init__(
        self,
        directory: Path,
        connect: str,
        log_dir: Path,
        properties: Mapping[str, str],
        java: Sequence[str] = (),
    ) -> None:
        self._java = java
        self.port = free_port()
        self._broker_id = properties["broker.id"]
        self._connect = connect
        self._output = directory / "genuine.out"
        self._file = directory / "genuine.properties"
        given = {
            "port": str(self.port),
            "host.name": "127.0.0.1",
            "log.dirs": str(log_dir),
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "controlled.shutdown.enable": "true",
            **properties,
        }
        self._file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def start(self) -> None:
        """Start it and wait until it listens.

        Raises:
            AssertionError: it ended, or did not listen in time.
        """
        # a broker that was killed is still registered; a genuine one ends over that
        with ZkSession(self._connect) as session:
            node = paths.broker(int(self._broker_id))
            assert wait_until(lambda: session.exists(node) is None, START_S)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                java_clients.tool_command("kafka.Kafka", str(self._file), java=self._java),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        assert wait_until(self._listens, START_S, 0.1), self.output[-3000:]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.output[-3000:]
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    def stop(self) -> None:
        """Shut it down; its logs are clean then."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_S)
            self._process = None

    def kill(self) -> None:
        """End it as by a power cut of its machine."""
        if self._process is not None:
            with end_sessions_of(self.pid, self._connect.partition("/")[0]):
                self._process.kill()
                self._process.wait(START_S)
            self._process = None
