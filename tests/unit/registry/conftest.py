import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.registry import paths


@pytest.fixture
def server():
    return new_server()


@pytest.fixture
def session(server):
    return InstantSession(server)


@pytest.fixture
def other(server):
    """Another session of the same server."""
    return InstantSession(server)


@pytest.fixture
def controller_session(session):
    """A session of a tree in which a controller of epoch 1 was elected."""
    session.create(paths.CONTROLLER_EPOCH, b"1")
    return session
