"""What tests of the ZooKeeper client share."""

import pytest

from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.client import new_client


@pytest.fixture(params=["threads", "gevent"])
def client(request):
    made = new_client("127.0.0.1:1", 6.0, get_runtime(request.param), lambda granted_s: None, 8.0)
    # As `start` does, without the task that connects.
    connection = made._connection
    connection._read_sock, connection._write_sock = made.handler.create_socket_pair()
    connection.connection_closed.clear()
    yield made
    connection.close()
