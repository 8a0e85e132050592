"""The interface of a source, from which a cluster learns its brokers and topics."""

from collections.abc import Collection
from typing import Protocol

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.view import View
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.zookeeper.nodes import Settable


class ClusterSource(Protocol):
    """A source of brokers and topics.

    One task at a time calls `start` and `read`; any task calls the others. All may wait for the
    network, for a bounded time.
    """

    def start(self, brokers: AnyBroker, changed: Settable) -> None:
        """Connect; `changed` is set from then on whenever there is more to read.

        Args:
            brokers: asks brokers over the cluster's connections.
            changed: to be set by any task.
        """

    def read(self, topics: Collection[str]) -> View:
        """Read the brokers and the given topics, without creating any.

        Raises:
            ZkbrokerError: the source cannot be read now.
        """

    def all_topics(self) -> list[str] | None:
        """Return the names of all topics, sorted; None where a broker has to be asked."""

    def only_connection(self) -> BrokerConnection | None:
        """Return the only connection; None where each broker has its own."""

    def close(self) -> None:
        """Release what `start` took."""
