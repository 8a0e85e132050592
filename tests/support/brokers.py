"""Broker processes for tests that need one of their own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.zookeeper import end_sessions_of
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.runtime import get_runtime

SESSION_MS = 30_000
"""Of a broker's session at ZooKeeper in tests: none is lost only because the machine is busy."""


class MortalBroker(BrokerProcess):
    """A broker whose sessions at ZooKeeper end when it is killed.

    So its death is noticed at once, although its sessions are long.
    """

    def __init__(self, directory: Path, properties: Mapping[str, str], **options: object) -> None:
        given = {"zookeeper.session.timeout.ms": str(SESSION_MS), **properties}
        super().__init__(directory, given, **options)  # type: ignore[arg-type]
        self._zookeeper = given["zookeeper.connect"].partition("/")[0]

    def start(self, timeout_s: float = 120) -> None:
        """Start the process and wait until it serves."""
        super().start(timeout_s)

    def stop(self, timeout_s: float = 60) -> bool:
        """Stop cleanly; returns whether it stopped by itself."""
        return super().stop(timeout_s)

    def kill(self) -> None:
        """End the process and its sessions."""
        with end_sessions_of(self.pid if self.alive else None, self._zookeeper):
            super().kill()


@contextmanager
def running_broker(
    directory: Path, zookeeper: str, settings: Mapping[str, str], *topics: str
) -> Iterator[BrokerProcess]:
    """Run broker 0, which must live to the end.

    Args:
        directory: where it keeps its data and its log.
        zookeeper: `host:port/chroot`.
        settings: what differs from the defaults.
        topics: made at the start, of one partition each.
    """
    kept = {"log.retention.hours": "-1"}  # tests write old timestamps
    process = MortalBroker(
        directory, {"broker.id": "0", "zookeeper.connect": zookeeper, **kept, **settings}
    )
    process.start()
    try:
        if topics:
            with connect(process) as connection:
                connection.request(
                    CreateTopicsRequest(topics=[NewTopic(topic, 1, 1) for topic in topics])
                )
        yield process
        assert process.alive
    finally:
        process.stop()


def connect(process: BrokerProcess, client_id: str = "test") -> BrokerConnection:
    """Open a client's connection, on threads."""
    host, port = process.address
    return BrokerConnection(get_runtime("threads"), host, port, client_id=client_id)
