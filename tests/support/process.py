"""Programs run to their end, the state of processes, and polled conditions."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path


def run_program(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program to its end; its source may be indented."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def exists(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, shared pages included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files(directory: Path) -> list[str]:
    """Files below a directory that this process has open, once for each descriptor."""
    found = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    return sorted(each for each in found if each.startswith(f"{directory}/"))


def wait_until(condition, timeout_s: float = 120, interval_s: float = 0.05) -> bool:
    """Poll a condition that nothing announces; False when it never came true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True


def eventually(condition, what: str = "what the test waits for", timeout_s: float = 120) -> None:
    """Poll a condition that nothing announces, which must come true."""
    assert wait_until(condition, timeout_s), f"not in time: {what}"
