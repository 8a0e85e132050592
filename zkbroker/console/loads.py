"""Loads into lakes, from the lakes' own ledgers, with the ends of the logs.

`PLUGIN`, an import path, reads a lake: this package has no code for lakes. Invariant: a lake is
read again after `KEPT_MS` at the earliest, off the event loop; an unreadable one is shown with the
reason.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from zkbroker.config.import_path import import_object
from zkbroker.console.cluster_state import ClusterState
from zkbroker.errors import ConfigError, ZkbrokerError
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

PLUGIN = "spark_loader.lake.console_summary:read_lake"
KEPT_MS = 15_000


class Loads:
    """The lakes of a cluster, by their directories; `seen` has the ends of logs."""

    def __init__(self, lakes: tuple[str, ...], seen: ClusterState, runtime: Runtime) -> None:
        self._lakes = lakes
        self._seen = seen
        self._runtime = runtime
        self._read: dict[str, tuple[int, Mapping[str, Any]]] = {}
        self._reading = runtime.lock()

    def view(self) -> dict[str, Any]:
        """Return the lakes as the API shows them."""
        return {"lakes": [self._lake(path) for path in self._lakes]}

    def _lake(self, path: str) -> dict[str, Any]:
        with self._reading:
            read_ms, found = self._read.get(path, (None, {}))
            if read_ms is None or self._runtime.clock_ms() - read_ms >= KEPT_MS:
                found = self._runtime.offload(_books, path)
                self._read[path] = (self._runtime.clock_ms(), found)
        partitions = []
        for each in found["positions"]:
            number = each["partition"]
            # Partitions of 0.7 have no plain number, and their ends are unknown here.
            key = each["topic"], int(number) if number.isdecimal() else number
            partitions.append(
                {
                    "topic": key[0],
                    "partition": key[1],
                    "loaded_to": each["loaded_to"],
                    "end": self._seen.end_of(key),
                    "lag": self._seen.lag(key, each["loaded_to"]),
                }
            )
        rest = {name: value for name, value in found.items() if name != "positions"}
        return {**rest, "partitions": partitions}


def _books(path: str) -> Mapping[str, Any]:
    """Return the runs, positions and gaps of a lake, or why they cannot be read."""
    try:
        read: Callable[[str], Mapping[str, Any]] = import_object("--lake", PLUGIN)
        return {**read(path), "error": None}
    except ConfigError:
        text = "the loader is not installed: pip install 'zkbroker[lake]'"
    except (ZkbrokerError, OSError, ValueError) as error:
        text = f"the lake cannot be read: {error}"
    except Exception:
        # The libraries of table formats may raise anything.
        logger.exception("lake not read path=%s", path)
        text = "the lake cannot be read: the console's log says why"
    nothing: dict[str, Any] = {"runs": [], "positions": [], "gaps": []}
    return {"path": path, "error": text, **nothing, "quarantine": {"rows": None, "files": None}}
