"""The interface of a consumer to the rebalancer."""

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
        """The session is over: give up all partitions and commit nothing."""

    def stop(self) -> None:
        """Stop the fetchers, clear the queues and wait, bounded, for messages in hand."""

    def commit(self) -> None:
        """Commit the consumed offsets. An error is logged and does not stop the rebalance."""

    def load(self, owned: Owned) -> None:
        """Prepare to consume the claimed partitions: read their offsets. May wait.

        Raises:
            RegistryError: the rebalance is tried again.
        """

    def start(self, owned: Owned) -> None:
        """Own partitions from now on and begin to fetch; must not wait for anything.

        Called under the lock that keeps `drop` out: `drop` is either called before, and then
        `start` is not called, or after.
        """


class OwnershipListener(Protocol):
    """A user's listener of rebalances; the rebalancer's loop calls it. An error is logged."""

    def before_releasing_partitions(self, owned: Owned) -> None:
        """Delivery has stopped and offsets are committed; the partitions are still owned."""

    def before_starting_fetchers(self, consumer_id: str, owned: Owned) -> None:
        """The partitions are owned; nothing is delivered yet."""
