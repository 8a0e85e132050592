"""The real way to a cluster, by the generation of Kafka that it speaks."""

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
            # A wrong chroot would look like an empty cluster, and be made.
            require_cluster(connect.zookeeper, connect.security.zookeeper)
        return find_generation(connect.generation).view(connect)

    def fetcher(self, connect: ConnectOptions) -> Fetcher:
        return find_generation(connect.generation).fetcher(connect)
