"""Start a child process that cannot outlive this one.

    this process --fork--> launcher --prctl, exec--> the program, same process id

Invariant (Linux): the kernel kills the child when this process ends, even by `kill -9`. The kernel
watches the *thread* that forked, so every child is forked from one thread that lives as long as the
process. A separate launcher program requests this with prctl: code in the forked copy of this
process could run finalizers of other threads on shared sockets. The child has its own session:
Ctrl-C at a terminal reaches only this process, which then stops the child in order.
"""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import IO

_Request = tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]

# 1 is PR_SET_PDEATHSIG, 9 is SIGKILL; the parent may have ended before the call of prctl.
_LAUNCHER = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


class _Forker:
    """The thread that forks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[_Request]
        self._pid = 0

    def run(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        done: Future[subprocess.Popen[bytes]] = Future()
        with self._lock:
            if self._pid != os.getpid():
                # At first use, and again in a forked process, which has no copy of the thread.
                self._pid = os.getpid()
                self._requests = queue.SimpleQueue()
                threading.Thread(
                    target=self._serve, args=(self._requests,), name="forker", daemon=True
                ).start()
            self._requests.put((start, done))
        return done.result()

    @staticmethod
    def _serve(requests: queue.SimpleQueue[_Request]) -> None:
        while True:
            start, done = requests.get()
            try:
                done.set_result(start())
            except Exception as error:  # noqa: BLE001 - raised by `run`, in the caller's thread
                done.set_exception(error)


_FORKER = _Forker()


def start_child(
    command: list[str],
    *,
    cwd: Path,
    output: IO[bytes],
    environment: Mapping[str, str] | None = None,
    keep_open: tuple[int, ...] = (),
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process.

    Args:
        command: the path of the program and its arguments.
        cwd: its working directory.
        output: a file that receives its output.
        environment: its environment variables; those of this process when None.
        keep_open: descriptors that it holds as long as it lives, such as that of a lock.
        umask: its umask; that of this process when -1.

    Raises:
        OSError, ValueError: it cannot be started.
    """
    if sys.platform == "linux" and sys.executable:
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - the caller's own command, no shell
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            pass_fds=keep_open,
            umask=umask,
        )

    return _FORKER.run(start)
