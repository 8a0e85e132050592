"""Pages of an issuer: redirects lose neither credentials nor TLS."""

import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from zkbroker.security.sasl.pages import _Redirections, read_page


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        seen.append((self.path, self.headers.get("Authorization")))
        self.send_response(302 if self.path == "/first" else 200)
        self.send_header("Location", "/second")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"page")

    do_POST = do_GET

    def log_message(self, *given): ...


seen = []


@pytest.fixture
def address():
    seen.clear()
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/first"
        server.shutdown()
        serving.join()


def test_credentials_do_not_follow_redirects(address):
    request = urllib.request.Request(address, b"grant", {"Authorization": "Basic secret"})
    with pytest.raises(OSError, match="302"):
        read_page(request, 10, 100)
    assert seen == [("/first", "Basic secret")]


def test_request_without_credentials_follows_redirects(address):
    assert read_page(address, 10, 3) == b"pag"
    assert seen == [("/first", None), ("/second", None)]


@pytest.mark.parametrize(
    ("url", "location", "followed"),
    [
        ("https://a/keys", "https://b/keys", True),
        ("https://a/keys", "HTTPS://b/keys", True),
        ("https://a/keys", "http://a/keys", False),
        ("https://a/keys", "ftp://a/keys", False),
        ("http://a/keys", "http://b/keys", True),
    ],
)
def test_https_is_redirected_only_to_https(url, location, followed):
    request = urllib.request.Request(url)
    answer = _Redirections().redirect_request(request, None, 302, "", {}, location)
    assert (answer is not None) is followed
