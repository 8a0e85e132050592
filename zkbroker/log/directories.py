"""The data directories of a broker.

Invariant: a directory that fails goes offline with its logs; the others go on. All directories
belong to one broker of one cluster.
"""

from collections.abc import Sequence

from zkbroker.errors import ConfigError, StorageError
from zkbroker.log.checkpoints import MetaProperties
from zkbroker.log.directory import DataDirectory, agree
from zkbroker.log.names import TopicPartition


class DataDirectories:
    """The data directories; `open` locks them, `close` unlocks them."""

    def __init__(self, directories: Sequence[DataDirectory]) -> None:
        self.all = directories
        self.meta = MetaProperties(None, None)
        """The ids stored in the directories."""

    def open(self, broker_id: int | None) -> None:
        """Lock the directories and read the files beside the partitions.

        Args:
            broker_id: as configured; checked against `meta.properties`.

        Raises:
            StorageError: another process uses one of them.
            ConfigError: they belong to another broker.
        """
        for directory in self.all:
            directory.open()
        self.meta = agree(self.online(), broker_id)

    def close(self) -> None:
        """Unlock the directories."""
        for directory in self.all:
            directory.close()

    def online(self) -> list[DataDirectory]:
        """Return the usable directories."""
        return [each for each in self.all if each.offline is None]

    def offline(self) -> dict[str, str]:
        """Return the directories that cannot be used, with the reason."""
        return {str(each.root): each.offline for each in self.all if each.offline is not None}

    def failure(self) -> StorageError | None:
        """Return the error if no directory can be used, else None."""
        if self.online():
            return None
        reasons = "; ".join(f"{path}: {reason}" for path, reason in self.offline().items())
        return StorageError(
            f"no data directory can be used ({reasons}): make one of them a directory with room "
            "that this user may write, or change log.dirs"
        )

    def require_one(self) -> None:
        """Raise StorageError if no directory can be used."""
        failure = self.failure()
        if failure is not None:
            raise failure

    def require_all_read(self, tp: TopicPartition) -> None:
        """Raise StorageError if a partition's log may be in a directory that was not read."""
        unread = [str(each.root) for each in self.all if not each.loaded]
        if unread:
            raise StorageError(f"{tp} may be in {unread}, which could not be read")

    def write_meta(self, broker_id: int, cluster_id: str | None, *, new_directories: bool) -> None:
        """See `LogManager.write_meta`."""
        agree(self.online(), broker_id)
        stored = self.meta.cluster_id
        if cluster_id is not None and stored is not None and stored != cluster_id:
            raise ConfigError(
                f"these log.dirs belong to cluster {stored}, and ZooKeeper to {cluster_id}: check "
                "zookeeper.connect, or give other log.dirs"
            )
        self.meta = MetaProperties(broker_id, cluster_id or stored)
        for directory in self.all:
            if new_directories or directory.meta.broker_id is not None:
                directory.write_meta(self.meta)
        self.require_one()
