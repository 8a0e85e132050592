"""The plug-in of Kafka 0.7, chosen by `kafka.generation=0.7` in the source and in loads.

Invariant: every difference from newer clusters is decided in this package.
"""

from collections.abc import Sequence
from typing import Any

from spark_loader.legacy07.cluster import BrokerView07, Fetcher07
from spark_loader.legacy07.reader import RangeReader07
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.generations import LoaderGeneration
from spark_loader.reading.reader import Fetcher, RangeReader
from spark_loader.reading.resolve import SourceCluster
from zkbroker.errors import ConfigError
from zkbroker.types import Partition07


class LoaderKafka07:
    """Kafka 0.7; see `LoaderGeneration`."""

    counts_records = False
    partitions_return = True

    def check(self, *, zookeeper: str, bootstrap: Sequence[str], read_committed: bool) -> None:
        if bootstrap:
            raise ConfigError(
                "brokers of a cluster of Kafka 0.7 are found by its ZooKeeper: give "
                "zookeeper.connect in place of kafka.bootstrap.servers"
            )
        if not zookeeper:
            raise ConfigError("a cluster of Kafka 0.7 is found by its ZooKeeper: give zookeeper")
        if read_committed:
            raise ConfigError(
                "isolation.level=read_committed is not for Kafka 0.7, which has no transactions"
            )

    def view(self, connect: ConnectOptions) -> SourceCluster:
        return BrokerView07(connect)

    def fetcher(self, connect: ConnectOptions) -> Fetcher:
        return Fetcher07(connect)

    def reader(self, fetcher: Fetcher, *, positions: bool = False, **options: Any) -> RangeReader:
        return RangeReader07(fetcher, positions=positions, **options)

    def has(self, partition: int) -> bool:
        return isinstance(partition, Partition07)


GENERATION: LoaderGeneration = LoaderKafka07()
