"""Servers on gevent, which are stopped after the test."""

import time

import pytest

from tests.support.frame_client import frame
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server


def echo(session, request):
    return [frame(bytes(request))]


@pytest.fixture
def servers():
    """The servers that `serve` started."""
    started = []
    yield started
    for server in started:
        server.stop(0.2)


@pytest.fixture
def serve(servers):
    """Start a server with limits, and return the address of its listener."""

    def start(handle=echo, host="127.0.0.1", gates=None, clock=time.monotonic, **limits):
        server = Server([Listener("PLAINTEXT", host, 0)], Limits(**limits), clock=clock)
        server.listen()
        server.start(handle, gates=gates or {})
        servers.append(server)
        return server.addresses["PLAINTEXT"]

    return start
