"""Brokers that `kafka-server-start` started, and that `kafka-server-stop` finds.

    LOG_DIR/kafkaServer-PID.pid     one for each, while it runs: the start time of its process
    LOG_DIR/kafkaServer.out         output of brokers in the background

Invariant: only a process that wrote its own file gets a signal: the file holds the process's start
    time, which differs for a later process with the same id.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from zkbroker.cluster.python_child import python_command, python_environment
from zkbroker.errors import ClientError
from zkbroker.private_files import make_private_directory, open_private, write_private

OUTPUT = "kafkaServer.out"
_PREFIX = "kafkaServer-"
_SUFFIX = ".pid"


def directory() -> Path:
    """Return LOG_DIR of the environment, as genuine scripts use it; `logs` by default."""
    return Path(os.environ.get("LOG_DIR") or "logs")


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Let `kafka-server-stop` find this process while the context lasts."""
    make_private_directory(directory())
    path = directory() / f"{_PREFIX}{os.getpid()}{_SUFFIX}"
    write_private(path, _started(os.getpid()).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def spawn(arguments: Sequence[str]) -> tuple[int, Path]:
    """Start `zkbroker` with arguments in the background.

    Returns:
        Its process id, and the file of its output.
    """
    make_private_directory(directory())
    path = directory() / OUTPUT
    with open_private(path, os.O_APPEND) as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            python_command("zkbroker.cli", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # It outlives this terminal.
            start_new_session=True,
            env=python_environment(),
        )
    return process.pid, path


def stop_all() -> list[int]:
    """Ask every broker that was started with this LOG_DIR to stop cleanly.

    Returns:
        Their process ids; files of processes that are gone are removed.

    Raises:
        ClientError: some belong to another user; the others were asked.
    """
    stopped, refused = [], []
    for path in sorted(directory().glob(f"{_PREFIX}*{_SUFFIX}")):
        number = path.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
        text = path.read_text(encoding="utf-8", errors="replace")
        if not number.isdecimal() or not text or _started(int(number)) != text:
            path.unlink(missing_ok=True)
            continue
        try:
            os.kill(int(number), signal.SIGTERM)
        except ProcessLookupError:
            continue
        except PermissionError:
            refused.append(number)
        else:
            stopped.append(int(number))
    if refused:
        raise ClientError(
            f"brokers of another user still run: {', '.join(refused)}; stop them as that user"
        )
    return stopped


def _started(pid: int) -> str:
    """Return the start time of a process, in the system's format; empty if it is gone."""
    with contextlib.suppress(OSError):
        # The 22nd field; the name of the process, the second, may hold spaces.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    done = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
