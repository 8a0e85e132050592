"""The ZooKeeper client, not started, on each runtime."""

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.client import new_client


def unconnected(runtime):
    made = new_client("127.0.0.1:1", 6.0, get_runtime(runtime), lambda granted_s: None, 8.0)
    # As `start` does, without the task that connects.
    connection = made._connection
    connection._read_sock, connection._write_sock = made.handler.create_socket_pair()
    connection.connection_closed.clear()
    yield made
    connection.close()


@pytest.fixture(params=["threads", "gevent"])
def client(request):
    yield from unconnected(request.param)


@pytest.fixture
def gevent_client():
    yield from unconnected("gevent")
