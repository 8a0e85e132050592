"""Mirrors and their progress in each source, from their topics in the target.

    mirror-offset-syncs   of mirrors with identity partitions
    mirror-positions      of mirrors that deliver exactly once

Invariant: a view reads at most `MOST_BYTES` of each topic, its newest records, and again after
`KEPT_MS` at the earliest. The lag is known if the source is a cluster of this console, under the
mirror's name for it.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zkbroker.client import Cluster
from zkbroker.console.cluster_state import ClusterState
from zkbroker.console.partition_reader import PartitionReader
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.node_json import read_json
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

TOPICS = ("mirror-offset-syncs", "mirror-positions")
KEPT_MS = 10_000
MOST_BYTES = 16 * 1024 * 1024
MOST_RECORDS = 50_000
_ALIVE_MS = 60_000
_CHUNK_BYTES = 512 * 1024
_SHOWN = 10_000
"""Most partitions of one mirror."""

Sources = Callable[[str], ClusterState | None]
"""Returns the state of a cluster by a mirror's name for it."""


@dataclass(slots=True)
class _Mirror:
    """The progress of one mirror. Args: offsets is the next offset in the source."""

    offsets: dict[PartitionKey, int] = field(default_factory=dict)
    last_ms: int | None = None


class Mirrors:
    """The mirrors into a cluster, `target`, from the other clusters of this console."""

    def __init__(self, target: str, seen: ClusterState, sources: Sources, runtime: Runtime) -> None:
        self._target = target
        self._seen = seen
        self._sources = sources
        self._runtime = runtime
        self._read_ms: int | None = None
        self._found: dict[str, _Mirror] = {}
        self._errors: list[str] = []
        self._reading = runtime.lock()

    def view(self, cluster: Cluster) -> dict[str, Any]:
        """Return the mirrors in the form of the API."""
        with self._reading:
            now_ms = self._runtime.clock_ms()
            if self._read_ms is None or now_ms - self._read_ms >= KEPT_MS:
                self._read(cluster)
                self._read_ms = self._runtime.clock_ms()
        return {"mirrors": [self._row(name, each) for name, each in sorted(self._found.items())]}

    def _row(self, name: str, mirror: _Mirror) -> dict[str, Any]:
        source = self._sources(name)
        partitions: list[dict[str, Any]] = []
        for key, offset in sorted(mirror.offsets.items()):
            partitions.append(
                {
                    "topic": key[0],
                    "partition": key[1],
                    "offset": offset,
                    "end": None if source is None else source.end_of(key),
                    "lag": None if source is None else source.lag(key, offset),
                }
            )
        lags = [each["lag"] for each in partitions if each["lag"] is not None]
        lag = sum(lags) if lags else None
        silent_ms = None if mirror.last_ms is None else self._runtime.now_ms() - mirror.last_ms
        moving = silent_ms is not None and silent_ms < _ALIVE_MS
        return {
            "name": name,
            "source": name,
            "target": self._target,
            "topics": sorted({topic for topic, _ in mirror.offsets}),
            "lag": lag,
            "last_ms": mirror.last_ms,
            "partitions": partitions[:_SHOWN],
            "state": "moving" if moving else ("caught up" if lag == 0 else "silent"),
            "errors": self._errors,
        }

    def _read(self, cluster: Cluster) -> None:
        self._found, self._errors = {}, []
        for topic in TOPICS:
            if topic not in self._seen.topics:
                continue
            try:
                self._read_topic(cluster, topic)
            except ZkbrokerError as error:
                self._errors.append(f"{topic} cannot be read: {error}")

    def _read_topic(self, cluster: Cluster, topic: str) -> None:
        for each in cluster.partitions(topic):
            reader = PartitionReader(cluster, topic, each.partition, _CHUNK_BYTES)
            # Newest last; older messages are of partitions that have not moved since.
            reader.seek(reader.end - MOST_RECORDS)
            while not reader.at_end and reader.bytes_read < MOST_BYTES:
                for record in reader.chunk():
                    if record.state == "committed":
                        self._take(record.key, record.value, record.time_ms)
                self._runtime.sleep(0)

    def _take(self, key: bytes | None, value: bytes | None, time_ms: int) -> None:
        try:
            name, place = read_json(key or b""), read_json(value or b"")
            source, partition = name["source"], (name["topic"], name["partition"])
            offset = place["offset"]
        except (ValueError, TypeError, KeyError):
            return  # another program's
        texts = isinstance(source, str) and isinstance(partition[0], str)
        if not texts or type(partition[1]) is not int or type(offset) is not int:
            return
        mirror = self._found.setdefault(source, _Mirror())
        mirror.offsets[partition] = max(offset, 0)
        mirror.last_ms = max(time_ms, mirror.last_ms or 0) if time_ms >= 0 else mirror.last_ms


def source_finder(seen: Mapping[str, tuple[str, ClusterState]]) -> Sources:
    """Return a function that finds a cluster, of id → name and state, by its id or name."""
    by_name = dict(seen.values())
    return lambda name: seen[name][1] if name in seen else by_name.get(name)
