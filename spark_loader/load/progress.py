"""Progress of a load: counts that mappers send by UDP, summed for the caller.

Invariant: progress is for people only. Nothing depends on it, and a load runs the same when
every datagram is lost.
"""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_loader.plurals import counted

# The activity of each stage, for people.
_DOING = {
    "plan": "planning",
    "start": "starting Spark, which takes some seconds",
    "load": "loading",
    "publish": "publishing",
    "done": "done",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress for the callback of a load; `str` makes a line for people.

    Attributes:
        stage: `plan`, `start` (of Spark, which takes seconds), `load`, `publish` or `done`.
        rows: loaded so far by this run.
        planned_rows: offsets this run will account for.
        lag: offsets in the log that are not loaded yet, those of this run included.
        bytes: of keys, values and the rest, uncompressed, so far.
    """

    stage: str
    run: int = 0
    rows: int = 0
    planned_rows: int = 0
    bytes: int = 0
    lag: int = 0
    mappers_done: int = 0
    mappers: int = 0

    @property
    def doing(self) -> str:
        """The load's activity, in words."""
        return _DOING[self.stage]

    def __str__(self) -> str:
        if not self.planned_rows:
            return self.doing
        return f"{self.doing}: {self.rows:,} of {counted(self.planned_rows, 'row')}"


Callback = Callable[[Progress], None]


@dataclass(slots=True)
class ProgressListener:
    """Adds up the counts from the mappers of one run and calls back.

    The callback is called from a thread of this listener's own while the load runs.
    """

    host: str
    run: int
    planned_rows: int
    lag: int
    mappers: int
    callback: Callback
    done: int
    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    _socket: socket.socket = field(init=False)
    _thread: threading.Thread = field(init=False)
    _closing: bool = False

    def __post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self.host, 0))
        self._thread = threading.Thread(target=self._listen, name="load-progress", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """The address that mappers send to."""
        host, port = self._socket.getsockname()
        return str(host), int(port)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self.address)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._closing:
            try:
                run, mapper, rows, size_bytes, finished = json.loads(self._socket.recv(1024))
            except (ValueError, TypeError):
                continue  # no mapper sent it
            if run == self.run:
                self._rows[mapper] = (rows, size_bytes)
                self.done += finished
                self.callback(self.progress("load"))

    def progress(self, stage: str) -> Progress:
        """Return the sums so far."""
        rows = sum(rows for rows, _ in self._rows.values())
        return Progress(
            stage=stage,
            run=self.run,
            rows=rows,
            planned_rows=self.planned_rows,
            bytes=sum(size_bytes for _, size_bytes in self._rows.values()),
            lag=max(0, self.lag - rows),
            mappers_done=min(self.done, self.mappers),
            mappers=self.mappers,
        )
