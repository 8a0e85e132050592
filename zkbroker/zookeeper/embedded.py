"""A real ZooKeeper as a child process, run from the jars that PySpark ships.

Invariants: `start` returns only when the server answers `srvr`, so that a client connects at the
first attempt; the server never outlives this process, however it ends (on Linux the kernel kills
it, elsewhere only an orderly exit stops it); port and data survive `kill` and `restart`; of a data
directory one server at most is running. Only 127.0.0.1 is bound. What it writes can be read by its
owner alone.
"""

import errno
import fcntl
import importlib.util
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from zkbroker.errors import RegistryError
from zkbroker.private_files import (
    PRIVATE_FILE,
    PRIVATE_UMASK,
    make_private_directory,
    open_private,
    warn_of_wide_rights,
    write_private,
)
from zkbroker.runtime.child_process import start_child
from zkbroker.zookeeper.java import find_java, java_environment, require_java

logger = logging.getLogger(__name__)

_SERVER_PORTS = range(20_000, 32_000)
_TRIES = 50
_MOST_GIVEN = len(_SERVER_PORTS) // 4
_given: set[int] = set()

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = ("zookeeper-3", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "snappy-java-")
LOCK = ".lock"
POLL_S = 0.02
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0


def find_jars(more: Sequence[str] = ()) -> list[Path]:
    """Return the jars that make a ZooKeeper server, found without importing PySpark.

    Args:
        more: how the names of further jars begin.

    Raises:
        RegistryError: PySpark is not installed, or it ships no ZooKeeper.
    """
    spec = importlib.util.find_spec("pyspark")
    cure = 'install it (pip install "zkbroker[spark]"), or name a running ZooKeeper instead'
    if spec is None or not spec.submodule_search_locations:
        raise RegistryError(f"the embedded ZooKeeper runs from the jars of pyspark: {cure}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    jars: list[Path] = []
    for prefix in (*JARS, *more):
        matches = sorted(folder.glob(f"{prefix}*.jar"))
        if not matches:
            raise RegistryError(f"pyspark at {folder.parent} ships no {prefix}*.jar: {cure}")
        jars.append(matches[-1])
    return jars


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 on which no process listens at the moment.

    It is below those that systems give to outgoing connections, so that none of them takes it
    while a server that has it is started again. Its owner may not listen on it yet: this
    process returns no port twice while there are others.
    """
    for port in (*random.sample(_SERVER_PORTS, _TRIES), 0):
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
            found = int(probe.getsockname()[1])
            if len(_given) >= _MOST_GIVEN:
                _given.clear()
            _given.add(found)
            return found
    raise RegistryError("no TCP port of 127.0.0.1 is free")


def server_mode(port: int) -> str | None:
    """Ask a server on 127.0.0.1 for its mode (`standalone`, `leader`, `follower`).

    Returns:
        None while it does not serve.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as asked:
            asked.sendall(b"srvr")
            answer = b""
            while part := asked.recv(4096):
                answer += part
    except OSError:
        return None
    for line in answer.decode("ascii", "replace").splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ")
    return None


def _lock(directory: Path) -> int:
    """Take the lock of a data directory: two servers in one would write over each other's logs.

    Returns:
        the descriptor that holds it; closed everywhere, it is given up.

    Raises:
        RegistryError: another server has it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    held = os.open(directory / LOCK, flags, PRIVATE_FILE)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if not isinstance(error, BlockingIOError):
            raise
        raise RegistryError(
            f"data directory {directory} is in use by another ZooKeeper: stop it, or give this one "
            "another directory"
        ) from None
    return held


def _properties_text(lines: tuple[str, ...]) -> str:
    """Return lines `key=value` as Java reads them: backslashes are doubled, other letters escaped.

    Source: `java.util.Properties.load`, which takes bytes for ISO 8859-1.
    """
    text = "\n".join((*lines, "")).replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(text[at : at + 2], "big") for at in range(0, len(text), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)


class EmbeddedZooKeeper:
    """One ZooKeeper server on 127.0.0.1; a context manager.

    Args:
        data_dir: where it keeps its data; a temporary directory, removed by `stop`, when None.
        port: client port; a free one when 0. It stays the same over restarts.
        tick_ms: ZooKeeper's tick; sessions live for 2 ticks at least.
        heap_mb: the most memory that its Java heap takes, in MiB.
        java_options: further options of the Java machine.
        lines: further lines of its configuration, such as those of an ensemble.
        jars: how the names of further jars begin.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        port: int = 0,
        *,
        tick_ms: int = 500,
        heap_mb: int = 64,
        java_options: tuple[str, ...] = (),
        lines: tuple[str, ...] = (),
        jars: tuple[str, ...] = (),
    ) -> None:
        self._temporary = data_dir is None
        # The server runs in this directory, where a relative path would lead elsewhere.
        self.data_dir = Path(
            tempfile.mkdtemp(prefix="zkbroker-zookeeper-") if data_dir is None else data_dir
        ).absolute()
        self.port = port or free_port()
        self._tick_ms = tick_ms
        self._java_options = (f"-Xmx{heap_mb}m", *java_options)
        if self._temporary:
            # Data that is thrown away need not wait for the disk.
            self._java_options += ("-Dzookeeper.forceSync=no",)
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        self._lines = lines
        self._jars = jars

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the server, None while it does not run."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start the server and wait until it serves.

        Raises:
            RegistryError: no Java or an old one, no jars, the port is taken, or it did not come
                up.
        """
        try:
            self.launch()
            return self.wait_ready(timeout_s)
        except BaseException:
            if self._temporary:
                self.stop()
            raise

    def launch(self) -> None:
        """Start the server without waiting for it."""
        if self.running:
            return
        java, jars = find_java(), find_jars(self._jars)
        if server_mode(self.port) is not None:
            raise RegistryError(
                f"port {self.port} is taken by another ZooKeeper: stop it, or give another port"
            )
        make_private_directory(self.data_dir)
        lock = _lock(self.data_dir)
        warn_of_wide_rights(self.data_dir)
        try:
            self._launch(java, jars, lock)
        finally:
            # The server has it, too, and keeps it until it has ended, whatever becomes of us.
            os.close(lock)

    def _launch(self, java: str, jars: list[Path], lock: int) -> None:
        config = self.data_dir / "zoo.cfg"
        lines = (*self._config(), *self._lines)
        write_private(config, _properties_text(lines).encode("ascii"))
        command = [
            java,
            *self._java_options,
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-cp",
            ":".join(map(str, jars)),
            MAIN_CLASS,
            str(config),
        ]
        with open_private(self._log_path, os.O_TRUNC) as log:
            self._process = start_child(
                command,
                cwd=self.data_dir,
                output=log,
                environment=java_environment(),
                keep_open=(lock,),
                umask=PRIVATE_UMASK,
            )
        logger.info("zookeeper started port=%d pid=%d", self.port, self._process.pid)

    def _config(self) -> tuple[str, ...]:
        return (
            f"dataDir={self.data_dir.resolve()}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            f"tickTime={self._tick_ms}",
            f"minSessionTimeout={2 * self._tick_ms}",
            "maxSessionTimeout=120000",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
        )

    @property
    def _log_path(self) -> Path:
        return self.data_dir / "zookeeper.log"

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Wait until the server answers clients."""
        deadline = time.monotonic() + timeout_s
        while server_mode(self.port) is None:
            if not self.running or time.monotonic() > deadline:
                lines = self._log_path.read_text(errors="replace").strip().splitlines()
                # What its logging library says of itself explains nothing.
                said = [line for line in lines if not line.startswith("SLF4J")][-5:]
                problem = "did not answer in time" if self.running else "ended"
                self.kill()
                require_java()
                raise RegistryError(
                    f"the embedded ZooKeeper on port {self.port} {problem}: "
                    + (" | ".join(said) or f"is the port taken? see {self._log_path}")
                )
            time.sleep(POLL_S)
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the server; its data is removed when the directory was a temporary one."""
        process = self._process
        if process is not None and process.poll() is None:
            self.resume()
            process.terminate()
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._process = None
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def kill(self) -> None:
        """End the server at once, as a crash would; the data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._paused = False

    def pause(self) -> None:
        """Freeze the server: connections stay open and nothing is answered."""
        if self._process is not None and self.running:
            os.kill(self._process.pid, signal.SIGSTOP)
            self._paused = True

    def resume(self) -> None:
        """Let a frozen server run on."""
        if self._paused and self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)
            self._paused = False

    def restart(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Kill the server where it runs and start it on the same port and data."""
        self.kill()
        return self.start(timeout_s)

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
