"""Pages of an issuer: redirects lose neither credentials nor TLS."""

import urllib.request

import pytest

from tests.support.http_pages import http_server
from zkbroker.security.sasl.pages import _Redirections, read_page


@pytest.fixture
def seen():
    """Paths and credentials of the requests to the server of `address`."""
    return []


@pytest.fixture
def address(seen):
    def answer(request):
        seen.append((request.path, request.headers.get("Authorization")))
        return 302 if request.path == "/first" else 200, b"page"

    with http_server(answer) as server:
        yield f"{server}/first"


def test_credentials_do_not_follow_redirects(address, seen):
    request = urllib.request.Request(address, b"grant", {"Authorization": "Basic secret"})
    with pytest.raises(OSError, match="302"):
        read_page(request, 10, 100)
    assert seen == [("/first", "Basic secret")]


def test_request_without_credentials_follows_redirects(address, seen):
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
