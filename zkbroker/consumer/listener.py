"""What a user is told of the partitions that come and go."""

from collections.abc import Collection

from zkbroker.consumer.partition import TopicPartition


class RebalanceListener:
    """What a consumer is told of its partitions; override what is of interest.

    All of it is called from within `poll` (or `close`, `unsubscribe`), so it may commit and seek.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """They are about to be given up: the last moment to commit."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """They are held now; nothing of them has been returned yet: the moment to seek."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are held by somebody else already; too late to commit."""
        self.on_partitions_revoked(partitions)
