"""What a rebalance asks of the consumer that it moves partitions for."""

from collections.abc import Mapping
from typing import Protocol

from zkbroker.types import PartitionKey

Owned = Mapping[PartitionKey, int]
"""Partition → number of the stream that it feeds."""


class GroupMember(Protocol):
    """A consumer that takes part in a group.

    `pause`, `resume` and `drop` are called from the ZooKeeper client's task and never block. The
    others are called from the rebalancer's loop, one after the other.
    """

    def pause(self) -> None:
        """The connection is gone: deliver nothing more until `resume`."""

    def resume(self) -> None:
        """The connection is back: deliver what is owned, if anything."""

    def drop(self) -> None:
        """The session is over: own nothing from now on and commit nothing."""

    def stop(self) -> None:
        """Stop the fetchers, clear the queues and wait, bounded, for messages in hand."""

    def commit(self) -> None:
        """Commit what was consumed. An error is logged and does not stop the rebalance."""

    def load(self, owned: Owned) -> None:
        """Prepare for partitions that were claimed: read their offsets. May wait.

        Raises:
            RegistryError: it is tried again.
        """

    def start(self, owned: Owned) -> None:
        """Own partitions from now on and begin to fetch; must not wait for anything.

        Called under the lock that keeps `drop` out: a `drop` comes either before, and then `start`
        does not come, or after.
        """


class OwnershipListener(Protocol):
    """A user's part in a rebalance; called from the rebalancer's loop. An error is logged."""

    def before_releasing_partitions(self, owned: Owned) -> None:
        """Nothing is delivered any more, offsets are committed, the partitions still owned."""

    def before_starting_fetchers(self, consumer_id: str, owned: Owned) -> None:
        """The partitions are owned, nothing is delivered yet."""
