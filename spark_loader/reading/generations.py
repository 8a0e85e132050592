"""The interface of a generation of Kafka: the plug-in of the source and of loads.

Invariant: a generation is one line in `PLUGINS`. No other module compares its name or imports its
    package.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_loader.reading.connect import ConnectOptions
from zkbroker.config.generation import GENERATION
from zkbroker.config.import_path import import_object
from zkbroker.config.security import PLAINTEXT
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from spark_loader.reading.reader import Fetcher, RangeReader
    from spark_loader.reading.resolve import SourceCluster

PLUGINS: Final = {
    "": "spark_loader.brokers:GENERATION",
    "0.7": "spark_loader.legacy07.generation:GENERATION",
}
"""Where the plug-in of each generation is imported from; the first one is that of 0.8 and later."""


class LoaderGeneration(Protocol):
    """A generation, as the source and loads use it.

    Attributes:
        counts_records: whether offsets count records, so that a range may end at any of them.
        partitions_return: whether a missing partition may come back with its broker.
    """

    counts_records: bool
    partitions_return: bool

    def check(self, *, zookeeper: str, bootstrap: Sequence[str], read_committed: bool) -> None:
        """Refuse settings that the generation does not support.

        Raises:
            ConfigError: a cluster cannot be found, or cannot be read, with these.
        """

    def view(self, connect: ConnectOptions) -> "SourceCluster":
        """Return the driver's view of the cluster."""

    def fetcher(self, connect: ConnectOptions) -> "Fetcher":
        """Return the fetcher of a task."""

    def reader(
        self, fetcher: "Fetcher", *, positions: bool = False, **options: Any
    ) -> "RangeReader":
        """Return a reader of ranges.

        Args:
            fetcher: where bytes come from.
            positions: whether rows keep the position of their entry, which `verify` needs.
            options: of `RangeReader`.
        """

    def has(self, partition: int) -> bool:
        """Return whether a partition's number is of the kind that only this generation has."""


def find_generation(name: str) -> LoaderGeneration:
    """Return the plug-in of a generation by the name that `parse_generation` returns."""
    found: LoaderGeneration = import_object(GENERATION, PLUGINS[name])
    return found


def check_connect(connect: ConnectOptions) -> None:
    """Refuse unsupported settings of a generation; in the driver, as tasks get only addresses.

    Raises:
        ConfigError: a setting contradicts it.
    """
    find_generation(connect.generation).check(
        zookeeper=connect.zookeeper or "",
        bootstrap=connect.bootstrap,
        read_committed=connect.read_committed,
    )
    if connect.generation and connect.security.protocol != PLAINTEXT:
        raise ConfigError(
            f"security.protocol={connect.security.protocol} is not for Kafka {connect.generation}, "
            "which knows neither TLS nor logins: leave it out"
        )


def generation_of(partitions: Iterable[int]) -> str:
    """Return the name of the generation that partitions are from; empty for 0.8 and later."""
    known = set(partitions)
    for name in filter(None, PLUGINS):
        if any(map(find_generation(name).has, known)):
            return name
    return ""
