"""The callbacks of a group consumer: partitions assigned, revoked and lost."""

from collections.abc import Collection

from zkbroker.types import PartitionKey


class RebalanceListener:
    """Called when partitions are assigned, revoked or lost; override what you need.

    They are called from within `poll` (or `close`, `unsubscribe`), so they may commit and seek.
    """

    def on_partitions_revoked(self, partitions: Collection[PartitionKey]) -> None:
        """The partitions are about to be released: the last moment to commit."""

    def on_partitions_assigned(self, partitions: Collection[PartitionKey]) -> None:
        """The partitions are owned, and none of their messages was returned yet: time to seek."""

    def on_partitions_lost(self, partitions: Collection[PartitionKey]) -> None:
        """Another member may own the partitions already; it is too late to commit."""
        self.on_partitions_revoked(partitions)
