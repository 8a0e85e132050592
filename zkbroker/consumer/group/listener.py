"""The callbacks of a group consumer: partitions assigned, revoked and lost."""

from collections.abc import Collection

from zkbroker.types import PartitionKey


class RebalanceListener:
    """Called when partitions are assigned, revoked or lost; override what you need.

    All of it is called from within `poll` (or `close`, `unsubscribe`), so it may commit and seek.
    """

    def on_partitions_revoked(self, partitions: Collection[PartitionKey]) -> None:
        """They are about to be released: the last moment to commit."""

    def on_partitions_assigned(self, partitions: Collection[PartitionKey]) -> None:
        """They are owned now, and no message of them was returned yet: the moment to seek."""

    def on_partitions_lost(self, partitions: Collection[PartitionKey]) -> None:
        """Another member owns them already; it is too late to commit."""
        self.on_partitions_revoked(partitions)
