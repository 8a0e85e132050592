"""The console on a broker's admin page, with the page's logins and roles."""

import base64
import json
import time
import urllib.error
import urllib.request

import pytest

from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.embedded import free_port

WAIT_S = 120


@pytest.fixture(scope="module")
def page(local_cluster, tmp_path_factory):
    users = tmp_path_factory.mktemp("page") / "users"
    users.write_text(f"ann:{PasswordHash.of('look')}\nbob:{PasswordHash.of('change')}\n")
    port = free_port()
    properties = {
        "admin.port": str(port),
        "admin.users.file": str(users),
        "admin.console": "true",
        "admin.console.operators": "bob",
    }
    with local_cluster(1, properties=properties) as cluster:
        cluster.create_topic("events")
        yield f"http://127.0.0.1:{port}"


def ask(address, user=None, body=None, **headers):
    """Return status, headers and text."""
    request = urllib.request.Request(address, None if body is None else json.dumps(body).encode())
    if user is not None:
        pair = base64.b64encode(user.encode()).decode()
        request.add_header("Authorization", f"Basic {pair}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_requests_without_the_login_of_the_admin_page_are_refused(page):
    for path in ("/console/", "/console/api/session", "/console/static/index.html"):
        assert ask(f"{page}{path}")[0] == 401
    assert ask(f"{page}/console/", "ann:wrong")[0] == 401


def test_console_is_served_below_its_path_only(page):
    status, headers, text = ask(f"{page}/console/topics", "ann:look")
    assert status == 200
    assert '<base href="/console/"' in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(f"{page}/metrics", "ann:look")[0] == 200
    assert ask(f"{page}/consoles", "ann:look")[0] == 404


def test_operator_changes_the_cluster_of_the_broker(page):
    where = f"{page}/console/api/clusters/cluster"
    deadline = time.monotonic() + WAIT_S
    while True:
        found = json.loads(ask(f"{where}/overview", "ann:look")[2])
        if found["topics"] and found["brokers"][0]["cpu"] is not None:
            break
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    assert found["zookeeper"]["session"] == "connected"
    assert json.loads(ask(f"{where}/clients", "ann:look")[2])["sources"] == [1]
    body = {"name": "made", "partitions": 1, "replication": 1, "confirm": "made"}
    for user, role, expected in (("ann:look", "viewer", 403), ("bob:change", "operator", 200)):
        session = json.loads(ask(f"{page}/console/api/session", user)[2])
        assert (session["user"], session["role"]) == (user.partition(":")[0], role)
        assert session["login"] is False
        assert ask(f"{where}/topics", user, body)[0] == 403
        status, _, text = ask(f"{where}/topics", user, body, X_CSRF_Token=session["csrf"])
        assert status == expected, text


def test_stream_is_served_by_the_broker(page):
    request = urllib.request.Request(f"{page}/console/api/clusters/cluster/events?what=overview")
    request.add_header("Authorization", f"Basic {base64.b64encode(b'ann:look').decode()}")
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        overviews = 0
        while overviews < 2:
            overviews += answer.readline() == b"event: overview\n"
