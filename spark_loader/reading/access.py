"""The interface between the loader and a cluster: a view for the driver, a fetcher for workers."""

from typing import Protocol

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.reader import Fetcher
from spark_loader.reading.resolve import SourceCluster


class Access(Protocol):
    """How to reach a cluster; it travels to workers, so it is picklable and holds nothing open."""

    def view(self, connect: ConnectOptions) -> SourceCluster: ...

    def fetcher(self, connect: ConnectOptions) -> Fetcher: ...
