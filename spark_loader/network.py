"""Access to a real cluster, by its generation of Kafka."""

from dataclasses import dataclass

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import find_generation
from spark_loader.reading.reader import Fetcher
from spark_loader.reading.resolve import SourceCluster
from zkbroker.admin.cluster_tree import require_cluster


@dataclass(frozen=True, slots=True)
class NetworkAccess:
    """See `reading.access.Access`."""

    def view(self, connect: ConnectOptions) -> SourceCluster:
        if connect.zookeeper:
            # Otherwise a wrong chroot would be created, and look like an empty cluster.
            require_cluster(connect.zookeeper, connect.security.zookeeper)
        return find_generation(connect.generation).view(connect)

    def fetcher(self, connect: ConnectOptions) -> Fetcher:
        return find_generation(connect.generation).fetcher(connect)
