import gevent
import pytest

from tests.support.handler_services import HandlerSession
from zkbroker.broker import context as module
from zkbroker.broker.context import RequestContext
from zkbroker.network.server.server import CloseConnection
from zkbroker.security import ANONYMOUS


@pytest.fixture
def session():
    return HandlerSession()


@pytest.fixture
def context(session):
    return RequestContext(session, 1, 10, 7, "c")


def test_context_describes_client_and_connection(context):
    assert (context.api_key, context.api_version, context.correlation_id) == (1, 10, 7)
    assert (context.client_id, context.listener, context.peer) == ("c", "PLAINTEXT", "10.0.0.1")
    assert context.principal is ANONYMOUS
    assert str(context.principal) == "User:ANONYMOUS"


def test_park_delegates_to_the_session(context, session):
    with context.park(lambda: None):
        assert session.parks == 1


def test_long_loop_lets_other_tasks_run(context, monkeypatch):
    monkeypatch.setattr(module, "RUN_S", 0.0)
    others = []
    gevent.spawn(others.append, "ran")
    context.run_until = 0.0
    for item in context.paced(range(2)):
        if item:
            assert others == ["ran"]


def test_long_loop_ends_when_the_client_is_gone(context, session, monkeypatch):
    monkeypatch.setattr(module, "RUN_S", 0.0)
    context.run_until = 0.0
    seen = []
    session.closed = True
    with pytest.raises(CloseConnection, match="client left") as raised:
        seen.extend(context.paced(range(1000)))
    # A client may leave at any time: no warning.
    assert raised.value.quiet
    assert len(seen) < 1000
    # Work that must be finished for such a client only lets other tasks run.
    assert context.pace() is True


def test_short_loop_is_not_interrupted(context, monkeypatch):
    monkeypatch.setattr(module, "RUN_S", 3600.0)
    context.run_until += 3600
    monkeypatch.setattr(gevent, "sleep", pytest.fail)
    assert list(context.paced("abc")) == ["a", "b", "c"]
