"""Data directories of brokers: sizes of partitions, and the growth of topics.

Invariant: nothing is known of a broker that does not answer, or is older than 1.0; a topic's size
    is that of its largest replicas.
"""

from zkbroker.admin.broker_queries import log_dirs
from zkbroker.client import Cluster
from zkbroker.console.cluster_state import ClusterState
from zkbroker.console.pace import QuestionPace
from zkbroker.errors import UnsupportedVersion
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced
from zkbroker.types import PartitionKey


class Directories:
    """Reads the data directories of the brokers in `seen`, and fills it."""

    def __init__(self, seen: ClusterState, runtime: Runtime, every_s: float) -> None:
        self._seen = seen
        self._runtime = runtime
        self._pace = QuestionPace(every_s)
        self._read_ms: int | None = None

    def look(self, cluster: Cluster, now_ms: int) -> None:
        """Read them if that is due."""
        if not self._pace.due(now_ms):
            return
        seen = self._seen
        begun_ms = self._runtime.clock_ms()
        answers = log_dirs(cluster)
        self._pace.done(now_ms, self._runtime.clock_ms() - begun_ms)
        failed = [
            f"broker {broker}: {error}"
            for broker, error in answers.silent.items()
            if not isinstance(error, UnsupportedVersion)
        ]
        seen.note_trouble("directories", failed, "data directories cannot be read")
        seen.directories = answers.found
        sizes: dict[PartitionKey, int] = {}
        for directories in seen.directories.values():
            for directory in directories:
                for each in paced(self._runtime, directory.replicas, 2000):
                    key = (each.topic, each.partition)
                    if not each.is_future:
                        sizes[key] = max(each.size, sizes.get(key, 0))
        self._grow(sizes, now_ms)
        seen.sizes = sizes

    def _grow(self, sizes: dict[PartitionKey, int], now_ms: int) -> None:
        before, then_ms = self._seen.sizes, self._read_ms
        self._read_ms = now_ms
        if then_ms is None:
            return
        grown: dict[str, int] = {}
        for key, size in sizes.items():
            if key in before:
                # Deletion by retention is not negative growth.
                grown[key[0]] = grown.get(key[0], 0) + max(0, size - before[key])
        seconds = max(1, now_ms - then_ms) / 1000
        self._seen.growth = {topic: growth / seconds for topic, growth in grown.items()}
