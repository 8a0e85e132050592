"""The seam between the loader and a cluster: what a driver asks it, and what a worker fetches."""

from typing import Protocol

from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.reader import Fetcher
from spark_loader.reading.resolve import SourceCluster


class Access(Protocol):
    """How to get at a cluster; travels to the workers, so picklable and with nothing open."""

    def view(self, connect: ConnectOptions) -> SourceCluster: ...

    def fetcher(self, connect: ConnectOptions) -> Fetcher: ...
