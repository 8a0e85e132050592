"""The console on a broker's admin page, with the page's logins and roles."""

import base64
import json
import urllib.request

import pytest

from tests.support.consoles import TIMEOUT_S, ConsoleClient
from tests.support.process import eventually
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.embedded import free_port


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


def ask(page, path, user=None, body=None, **headers):
    """Return status, headers and text."""
    if user is not None:
        pair = base64.b64encode(user.encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    method = "GET" if body is None else "POST"
    status, received, data = ConsoleClient(page).ask(method, path, body, **headers)
    return status, received, data.decode()


def test_requests_without_the_login_of_the_admin_page_are_refused(page):
    for path in ("console/", "console/api/session", "console/static/index.html"):
        assert ask(page, path)[0] == 401
    assert ask(page, "console/", "ann:wrong")[0] == 401


def test_console_is_served_below_its_path_only(page):
    status, headers, text = ask(page, "console/topics", "ann:look")
    assert status == 200
    assert '<base href="/console/"' in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert ask(page, "metrics", "ann:look")[0] == 200
    assert ask(page, "consoles", "ann:look")[0] == 404


def test_operator_changes_the_cluster_of_the_broker(page):
    where = "console/api/clusters/cluster"

    def overview():
        return json.loads(ask(page, f"{where}/overview", "ann:look")[2])

    # It is an error until the cluster was reached, and has no brokers at first.
    eventually(lambda: overview().get("topics"))
    eventually(lambda: any(each["cpu"] is not None for each in overview()["brokers"]))
    assert overview()["zookeeper"]["session"] == "connected"
    assert json.loads(ask(page, f"{where}/clients", "ann:look")[2])["sources"] == [1]
    body = {"name": "made", "partitions": 1, "replication": 1, "confirm": "made"}
    for user, role, expected in (("ann:look", "viewer", 403), ("bob:change", "operator", 200)):
        session = json.loads(ask(page, "console/api/session", user)[2])
        assert (session["user"], session["role"]) == (user.partition(":")[0], role)
        assert session["login"] is False
        assert ask(page, f"{where}/topics", user, body)[0] == 403
        token = {"X-CSRF-Token": session["csrf"]}
        status, _, text = ask(page, f"{where}/topics", user, body, **token)
        assert status == expected, text


def test_stream_is_served_by_the_broker(page):
    request = urllib.request.Request(f"{page}/console/api/clusters/cluster/events?what=overview")
    request.add_header("Authorization", f"Basic {base64.b64encode(b'ann:look').decode()}")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        overviews = 0
        while overviews < 2:
            overviews += answer.readline() == b"event: overview\n"
