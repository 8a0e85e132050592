"""The readers of a cluster of 0.8 and later, each at its own pace."""

from zkbroker.client import Cluster
from zkbroker.console.cluster_state import ClusterState
from zkbroker.console.directories import Directories
from zkbroker.console.groups import Groups
from zkbroker.console.offsets import Offsets
from zkbroker.console.topology import Topology
from zkbroker.runtime import Runtime
from zkbroker.zookeeper import ZkSession

_DIRECTORIES_EVERY_S = 10.0


class BrokerReaders:
    """Reads brokers and ZooKeeper; `OtherSight` takes its place for another generation.

    Args: as for `Collector`; seen is filled.
    """

    def __init__(self, seen: ClusterState, runtime: Runtime, interval_s: float) -> None:
        self._runtime = runtime
        self._topology = Topology(seen, runtime, interval_s)
        self._offsets = Offsets(seen)
        self._directories = Directories(seen, runtime, max(interval_s, _DIRECTORIES_EVERY_S))
        self._groups = Groups(seen, runtime, interval_s)
        self.look = self._topology.look
        self.look_at = self._groups.look_at

    @property
    def all_seen(self) -> bool:
        """Whether the offsets of every partition with a leader are known."""
        return self._offsets.all_seen

    def hurry(self) -> None:
        """Read everything at the next reading."""
        self._topology.hurry()
        self._groups.hurry()

    def look_on(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """Read offsets, directories and groups."""
        self._offsets.look(cluster, now_ms)
        self._directories.look(cluster, self._runtime.now_ms())
        self._groups.look(cluster, session, self._runtime.now_ms())
