"""Access to a cluster: a view for the driver, a fetcher for workers.

Both are of the cluster's generation of Kafka.
"""

from dataclasses import dataclass
from typing import Protocol

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import find_generation
from spark_loader.reading.reader import Fetcher
from spark_loader.reading.resolve import SourceCluster
from zkbroker.admin.cluster_tree import require_cluster


class Access(Protocol):
    """How to reach a cluster; it travels to workers, so it is picklable and holds nothing open."""

    def view(self, connect: ConnectOptions) -> SourceCluster: ...

    def fetcher(self, connect: ConnectOptions) -> Fetcher: ...


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """Access to a real cluster."""

    def view(self, connect: ConnectOptions) -> SourceCluster:
        if connect.zookeeper:
            # Otherwise a wrong chroot would be created, and look like an empty cluster.
            require_cluster(connect.zookeeper, connect.security.zookeeper)
        return find_generation(connect.generation).view(connect)

    def fetcher(self, connect: ConnectOptions) -> Fetcher:
        return find_generation(connect.generation).fetcher(connect)
