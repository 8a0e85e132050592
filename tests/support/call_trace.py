"""Which functions of the project a request runs, counted by the interpreter's profile hook."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import gevent

import zkbroker

ROOT = Path(zkbroker.__file__).parent
SETTLE_S = 0.05
WAITING = ("network/server/stream.py", "HubStream._wait")
LONGEST_S = 10
HANDLED = ("broker/dispatcher.py", "Dispatcher.handle")
YIELDS = frozenset({"yield_turn", "HubStream.pace"})
"""Let other tasks run; how often depends on the time that has passed, so that they are left out."""


class Way(NamedTuple):
    """What every one of some requests ran.

    Args:
        files: the files of the package, in the order in which they were entered first.
        calls: each file and function with how often it was called for one request.
    """

    files: list[str]
    calls: dict[tuple[str, str], int]

    @property
    def count(self) -> int:
        return sum(self.calls.values())

    def __str__(self) -> str:
        lines = [f"{len(self.files)} files, {self.count} calls"]
        lines += [f"{count} {file} {name}" for (file, name), count in self.calls.items()]
        return "\n".join(lines)


def trace(request: Callable[[], object], times: int = 20) -> Way:
    """Run a request some times; return what ran each time.

    Args:
        request: sends one request and waits for its answer, in the thread of the broker.
        times: what happens on fewer requests, such as a task of the broker's own, is left out.
    """
    runs = [_calls(request) for _ in range(times)]
    # Another task may have come between the calls of one run, such as a second wait for the socket.
    first = min(runs, key=lambda calls: calls.total())
    calls = {place: least for place in first if (least := min(each[place] for each in runs))}
    return Way(list(dict.fromkeys(file for file, _ in calls)), calls)


def _calls(request: Callable[[], object]) -> Counter[tuple[str, str]]:
    by_task: dict[object, Counter[tuple[str, str]]] = {}
    latest: dict[object, tuple[str, str]] = {}

    def note(frame: FrameType, event: str, argument: Any) -> None:
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        # A comprehension is a call before Python 3.12 only.
        ours = path.startswith(f"{ROOT}/") and name not in YIELDS and not name.endswith("comp>")
        if event == "call" and ours:
            task = gevent.getcurrent()
            place = path.removeprefix(f"{ROOT}/"), name
            by_task.setdefault(task, Counter())[place] += 1
            latest[task] = place

    # The connection's task comes back to its wait for the next request, before and after.
    gevent.sleep(SETTLE_S)
    sys.setprofile(note)
    try:
        with gevent.Timeout(LONGEST_S):
            request()
            # Other tasks work meanwhile: the connection's own is the one that handled the request.
            (task,) = (task for task, calls in by_task.items() if HANDLED in calls)
            while latest[task] != WAITING:
                gevent.sleep(0)
    finally:
        sys.setprofile(None)
    return by_task[task]
