"""The parts of kazoo that are overridden, and checks that it still has them."""

import collections
import inspect
import logging

import pytest
from kazoo.protocol.serialization import Auth, SetData

from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import client as module
from zkbroker.zookeeper.client import Connector, new_client, require_kazoo


def test_installed_kazoo_has_overridden_parts():
    require_kazoo()
    source = inspect.getsource(module.ConnectionHandler)
    calls = ("_send_request", "_connect", "_expand_client_hosts", "_read_socket", "_read", "_write")
    for call in (f"self.{name}(" for name in calls):
        assert call in source, f"kazoo no longer calls {call[:-1]}: overriding it has no effect"
    sending = inspect.getsource(module.ConnectionHandler._send_request)
    assert "client._queue" in sending
    assert "popleft" in sending
    starting = inspect.getsource(module.ConnectionHandler.start)
    assert "create_socket_pair" in starting
    assert "_write_sock" in inspect.getsource(module.KazooClient._call)
    assert "async_result" in inspect.getsource(module.KazooClient.get_async)
    assert Connector._send_request is not module.ConnectionHandler._send_request


@pytest.mark.parametrize("name", ["_send_request", "_connect", "_read_socket", "_read"])
def test_kazoo_without_a_needed_method_is_refused(name, monkeypatch):
    monkeypatch.delattr(module.ConnectionHandler, name)
    with pytest.raises(RegistryError, match=rf"no ConnectionHandler\.{name}\(.*pip install"):
        new_client("127.0.0.1:1", 6.0, get_runtime("threads"), print, 8.0)


def test_kazoo_with_other_parameters_is_refused(monkeypatch):
    monkeypatch.setattr(module.ConnectionHandler, "_connect", lambda self, address: None)
    with pytest.raises(RegistryError, match="_connect"):
        require_kazoo()


@pytest.mark.parametrize("owner", ["client", "connection"])
def test_kazoo_without_a_needed_field_is_refused(owner, monkeypatch):
    fields = collections.ChainMap({owner: ("_gone",)}, dict(module.RELIED_ON_FIELDS))
    monkeypatch.setattr(module, "RELIED_ON_FIELDS", tuple(fields.items()))
    with pytest.raises(RegistryError, match="_gone"):
        new_client("127.0.0.1:1", 6.0, get_runtime("threads"), print, 8.0)


def test_connection_attempts_are_logged_at_debug(caplog):
    caplog.set_level(logging.DEBUG)
    quiet = module._QuietLogger(logging.getLogger("test"), {})
    quiet.warning("Connection dropped: refused")
    quiet.warning("Cannot resolve nowhere")
    quiet.error("broken")
    assert [record.levelname for record in caplog.records] == ["DEBUG", "WARNING", "ERROR"]


def test_contents_of_requests_and_responses_are_not_logged(caplog):
    quiet = module._QuietLogger(logging.getLogger("test"), {})
    with caplog.at_level(logging.DEBUG):
        quiet.debug("Sending request(xid=%s): %s", 1, Auth(0, "digest", "kafka:hush"))
        quiet.debug("Sending request(xid=%s): %s", 2, SetData("/config/users/a", b"hush", 1))
        quiet.debug("Received response(xid=%s): %r", 2, (b"hush", None))
        quiet.debug("    session_passwd: %s", b"hush")
        quiet.debug("Connecting to %s:%s", "h", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "Sending request(xid=1): Auth",
        "Sending request(xid=2): SetData /config/users/a",
        "Received response(xid=2): 'tuple'",
        "    session_passwd: 4 bytes",
        "Connecting to h:1",
    ]
