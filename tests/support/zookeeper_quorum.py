"""An ensemble of real ZooKeeper servers as child processes."""

import shutil
import tempfile
from pathlib import Path
from typing import Self

from zkbroker.zookeeper.embedded import (
    START_TIMEOUT_S,
    EmbeddedZooKeeper,
    free_port,
    server_mode,
)


class EmbeddedQuorum:
    """An ensemble of ZooKeeper servers on 127.0.0.1; a context manager.

    Args:
        data_dir: the servers keep their data in `1`, `2`, … below it; temporary when None.
        size: how many servers; 3 survive the loss of one.
    """

    def __init__(
        self, data_dir: Path | str | None = None, size: int = 3, *, tick_ms: int = 500
    ) -> None:
        self._temporary = data_dir is None
        self.data_dir = Path(
            tempfile.mkdtemp(prefix="zkbroker-quorum-") if data_dir is None else data_dir
        )
        ports = {number: (free_port(), free_port()) for number in range(1, size + 1)}
        members = tuple(
            f"server.{number}=127.0.0.1:{peer}:{election}"
            for number, (peer, election) in ports.items()
        )
        self.servers: list[EmbeddedZooKeeper] = []
        for number in ports:
            folder = self.data_dir / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "myid").write_text(f"{number}\n")
            server = EmbeddedZooKeeper(
                folder, tick_ms=tick_ms, lines=("initLimit=20", "syncLimit=10", *members)
            )
            self.servers.append(server)

    @property
    def connect_string(self) -> str:
        return ",".join(server.connect_string for server in self.servers)

    @property
    def leader(self) -> EmbeddedZooKeeper | None:
        """The server that leads at the moment."""
        for server in self.servers:
            if server.running and server_mode(server.port) == "leader":
                return server
        return None

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start all servers and wait until each serves."""
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_ready(timeout_s)
        return self

    def stop(self) -> None:
        """Stop all servers."""
        for server in self.servers:
            server.stop()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
