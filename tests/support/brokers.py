"""Broker processes for tests that need one of their own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.zookeeper import end_session, password_of
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry import paths
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession


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
    kept = {"log.retention.hours": "-1"}  # whatever timestamps a test writes
    process = BrokerProcess(
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


def kill(process: BrokerProcess, zookeeper: ZkSession) -> None:
    """Kill a broker and end its session, as if the session's time had run out already.

    So sessions in tests may be long: none is lost only because the machine is busy.
    """
    stat = zookeeper.exists(paths.broker(process.id))
    process.kill()
    if stat is not None:
        owner = stat.ephemeral_owner
        end_session(zookeeper.hosts, (owner, password_of(owner)))


def connect(process: BrokerProcess, client_id: str = "test") -> BrokerConnection:
    """Open a client's connection, on threads."""
    host, port = process.address
    return BrokerConnection(get_runtime("threads"), host, port, client_id=client_id)
