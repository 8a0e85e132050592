"""The admin page: its port, its responses before the broker runs, its readers and its users."""

import base64
import contextlib
import socket
import ssl
import struct
import sys
import time
import urllib.error
import urllib.request

import gevent
import gevent.event
import pytest

from tests.support.certificates import Authority
from tests.support.zookeeper import until
from zkbroker.broker import BrokerNode
from zkbroker.broker.admin_access import FAILURES, AdminAccess
from zkbroker.broker.admin_page import MetricsPage
from zkbroker.broker.admin_port import is_loopback
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError, StorageError
from zkbroker.network.server import pages
from zkbroker.network.server.pages import _Handler
from zkbroker.runtime import get_runtime
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.security.tls.contexts import Reloaded, make_server_context


def node(tmp_path, admin_port):
    # No ZooKeeper listens there: a start that needs it first fails with another error.
    return BrokerNode(
        BrokerConfig.from_properties(
            {
                "zookeeper.connect": "127.0.0.1:1",
                "zookeeper.connection.timeout.ms": "1000",
                "log.dirs": str(tmp_path / "data"),
                "admin.port": str(admin_port),
                "admin.host": "127.0.0.1",
            }
        )
    )


def test_admin_port_in_use_fails_the_start_first(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            StorageError, match=rf"admin\.port 127\.0\.0\.1:{port}: Address already"
        ):
            node(tmp_path, port).start()
    assert not (tmp_path / "data").exists()


def test_missing_metrics_extra_fails_the_start_first(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "zkbroker.broker.admin_page")
    monkeypatch.delitem(sys.modules, "zkbroker.broker.exposition")
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(ConfigError, match=r"pip install 'zkbroker\[metrics\]'"):
        node(tmp_path, 0).start()
    assert not (tmp_path / "data").exists()


def ask(page, request):
    def exchange():
        with gevent.socket.create_connection(("127.0.0.1", page.port), timeout=10) as asked:
            asked.sendall(request)
            answer = b""
            while part := asked.recv(4096):
                answer += part
            return answer.decode()

    return gevent.spawn(exchange).get()


def get(page, path, method="GET", login=""):
    """Return the response to a request, with the credentials `user:password` if they are given."""
    header = (
        f"Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n" if login else ""
    )
    return ask(page, f"{method} {path} HTTP/1.0\r\n{header}\r\n".encode())


@contextlib.contextmanager
def serving(*given, **more):
    opened = MetricsPage("127.0.0.1", 0, *given, **more)
    opened.start()
    try:
        yield opened
    finally:
        opened.stop()


@pytest.fixture
def page():
    with serving() as opened:
        yield opened


def test_metrics_are_unavailable_before_the_broker_runs(page):
    for path in ("/metrics", "/clients"):
        answer = get(page, path)
        assert answer.startswith("HTTP/1.1 503 ")
        assert answer.endswith("the broker is starting or stopping\n")
    assert get(page, "/").startswith("HTTP/1.1 404 ")


def test_starting_broker_is_alive_but_not_ready(page):
    health = get(page, "/health")
    assert health.startswith("HTTP/1.1 200 ")
    assert health.endswith("\r\n\r\nalive\n")
    ready = get(page, "/ready")
    assert ready.startswith("HTTP/1.1 503 ")
    assert ready.endswith("\r\n\r\nnot ready\nthe broker is starting or stopping\n")
    assert get(page, "/ready", "POST").startswith("HTTP/1.1 405 ")


@pytest.mark.parametrize("headers", [b"a: b\r\n" * 150, b"a: " + b"b" * 70_000 + b"\r\n"])
def test_too_many_headers_are_refused_without_traceback(page, headers, capfd, caplog):
    answer = ask(page, b"GET /metrics HTTP/1.0\r\n" + headers + b"\r\n")
    assert answer.startswith("HTTP/1.1 400 ")
    assert "Traceback" not in capfd.readouterr().err + caplog.text


@pytest.mark.parametrize(
    "half", [b"GET /met", b"GET /metrics HTTP/1.1\r\nHo", b"GET /metrics HTTP/1.1\r\nHost: x\r\n"]
)
@pytest.mark.parametrize("end", ["reset", "closed", "silent"])
def test_partial_request_logs_nothing(page, monkeypatch, capfd, caplog, half, end):
    caplog.set_level("INFO")
    monkeypatch.setattr("zkbroker.network.server.pages._EXCHANGE_TIMEOUT_S", 0.1)
    ended = gevent.event.Event()
    handle = _Handler.handle

    def handled(handler):
        try:
            handle(handler)
        finally:
            ended.set()

    monkeypatch.setattr(_Handler, "handle", handled)
    peer = gevent.socket.create_connection(("127.0.0.1", page.port))
    peer.sendall(half)
    if end == "reset":
        # The handler waits for the rest by now: what comes before the reset is read.
        gevent.sleep(0.02)
        linger = struct.pack("ii", 1, 0)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    if end != "silent":
        peer.close()
    assert ended.wait(10)
    gevent.sleep(0)
    assert capfd.readouterr().err + caplog.text == ""
    peer.close()


def shown(page, monkeypatch, body=b"figures"):
    monkeypatch.setattr("zkbroker.broker.admin_page.generate_latest", lambda registry: body)
    page._services = object()


@pytest.mark.parametrize("path", ["/metrics", "/nothing"])
def test_head_request_gets_headers_only(page, monkeypatch, path):
    shown(page, monkeypatch)
    asked = ask(page, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    headers, _, body = asked.partition("\r\n\r\n")
    head = ask(page, f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert head.endswith("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head
    assert body
    assert head.splitlines()[0] == headers.splitlines()[0]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE"])
def test_other_methods_are_not_allowed(page, monkeypatch, method):
    shown(page, monkeypatch)
    assert get(page, "/metrics", method).startswith("HTTP/1.1 405 ")


def test_pages_are_rendered_one_at_a_time_and_other_tasks_run(page, monkeypatch):
    shown(page, monkeypatch)
    turns = []
    monkeypatch.setattr(
        "zkbroker.broker.admin_page.generate_latest", lambda registry: turns.append("page") or b""
    )

    def bystander():
        while turns.count("page") < 20:
            turns.append("other")
            gevent.sleep(0)

    others = gevent.spawn(bystander)
    readers = [gevent.spawn(page._page, "GET", "/metrics") for _ in range(20)]
    gevent.joinall([others, *readers], timeout=10)
    assert "page page" not in " ".join(turns)


def test_slow_readers_are_bounded_and_disconnected(page, monkeypatch, capfd, caplog):
    # The slow readers time out when the test sets the event.
    over, hang_up = gevent.event.Event(), pages._hang_up
    monkeypatch.setattr(pages, "_EXCHANGE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(pages, "_hang_up", lambda peer: over.wait(60) and hang_up(peer))
    made, body = [], bytes(8_000_000)
    shown(page, monkeypatch)
    monkeypatch.setattr(
        "zkbroker.broker.admin_page.generate_latest", lambda registry: made.append(1) or body
    )
    slow = [gevent.socket.create_connection(("127.0.0.1", page.port)) for _ in range(40)]
    for each in slow[:-1]:
        each.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    slow[-1].sendall(b"GET /metr")
    until(lambda: len(made) >= 32)
    for _ in range(100):
        gevent.sleep(0)
    assert len(made) == 32
    monkeypatch.setattr(pages, "_EXCHANGE_TIMEOUT_S", 60)
    over.set()
    # The next reader is served once the slow ones timed out.
    assert get(page, "/metrics", "HEAD").startswith("HTTP/1.1 200 ")
    for each in slow:
        each.close()
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_page_requires_login(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"alice:{PasswordHash.of('pw', iterations=10)}\n")
    access = AdminAccess(str(file), get_runtime("gevent"), time.monotonic)
    with serving(access) as page:
        for path in ("/metrics", "/nothing"):
            answer = get(page, path)
            assert answer.startswith("HTTP/1.1 401 ")
            assert 'WWW-Authenticate: Basic realm="zkbroker admin"' in answer
        # A probe without login gets one word; a user gets the reasons.
        assert get(page, "/ready").endswith("\r\n\r\nnot ready\n")
        reasons = "not ready\nthe broker is starting or stopping\n"
        assert get(page, "/ready", login="alice:pw").endswith(reasons)
        assert get(page, "/ready", "POST").startswith("HTTP/1.1 401 ")
        assert get(page, "/metrics", login="alice:pw").startswith("HTTP/1.1 503 ")
        for _ in range(FAILURES):
            assert get(page, "/metrics", login="alice:no").startswith("HTTP/1.1 401 ")
        assert get(page, "/ready", login="alice:pw").startswith("HTTP/1.1 429 ")
        assert get(page, "/health").startswith("HTTP/1.1 200 ")
        late = get(page, "/metrics", login="alice:pw")
        assert late.startswith("HTTP/1.1 429 ")
        assert "Retry-After: 60" in late


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)],
)
def test_loopback_hosts_are_recognised(host, own):
    assert is_loopback(host) is own


def test_page_is_served_over_tls(tmp_path):
    authority = Authority()
    key = authority.issue("admin", hosts=("127.0.0.1",))
    tls = TlsSettings(keystore_location=key.pem(tmp_path))
    keys = Reloaded(tls, lambda given: make_server_context(given, "none", kernel=False))
    with serving(contexts=keys.context) as opened:
        trusting = ssl.create_default_context(cafile=authority.trusted(tmp_path))

        def read():
            url = f"https://127.0.0.1:{opened.port}/nothing"
            try:
                urllib.request.urlopen(url, timeout=10, context=trusting)
            except urllib.error.HTTPError as answer:
                return answer.code

        def plain():
            try:
                with socket.create_connection(("127.0.0.1", opened.port), timeout=10) as asked:
                    asked.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                    return asked.recv(100)
            except ConnectionError:
                return None

        assert gevent.get_hub().threadpool.apply(read) == 404
        # A plaintext client causes no traceback, and the next client is served.
        assert gevent.get_hub().threadpool.apply(plain) in (b"", None)
        assert gevent.get_hub().threadpool.apply(read) == 404
