"""The application: sessions, roles, tokens, headers, files and errors, without a network."""

import pytest

from tests.unit.console.test_views import cluster_state
from zkbroker.broker.admin_access import AdminAccess
from zkbroker.broker.mounting import USER
from zkbroker.console.access import ClusterSettings
from zkbroker.console.application import make_application
from zkbroker.console.history import History
from zkbroker.console.logins import Logins
from zkbroker.console.publication import Publication
from zkbroker.errors import RegistryError
from zkbroker.runtime import get_runtime
from zkbroker.security.password_hashes import PasswordHash

ANN = PasswordHash.of("right", iterations=1)


class CollectorAfterOneReading:
    """The parts of a collector that the application uses."""

    def __init__(self):
        self.seen = cluster_state()
        self.access = UnreachableCluster()
        self.history = History(10, 10)
        self.history.record(5, {"cluster.offline": 1})
        self.published = Publication(1, self.seen, self.access, 5)
        self.closed = False

    def describe_group(self, key):
        return self.access.cluster

    def wait(self, after, timeout_s):
        if after >= 1:
            self.closed = True
        return self.published


class UnreachableCluster:
    settings = ClusterSettings(id="c", name="the cluster", zookeeper="a:1")

    @property
    def cluster(self):
        raise RegistryError("nobody answers")


def console(logins=None, **settings):
    return make_application(
        {"c": CollectorAfterOneReading()},
        logins or Logins(None, (), lambda: 0),
        get_runtime("threads"),
        **settings,
    ).test_client()


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"ann:{ANN}\nbob:{ANN}\n")
    access = AdminAccess(str(file), get_runtime("threads"), lambda: 0.0)
    return Logins(access, {"bob"}, lambda: 0.0)


def log_in(client, user="ann", password="right"):
    return client.post("/api/login", json={"user": user, "password": password})


def test_session_without_users_needs_no_login():
    found = console().get("/api/session").get_json()
    assert found["clusters"] == [{"id": "c", "name": "the cluster", "generation": None}]
    assert (found["user"], found["role"], found["login"]) == (None, "viewer", False)


@pytest.mark.parametrize("path", ["overview", "topics", "groups", "series", "events", "nothing"])
def test_requests_before_login_are_refused(users, path):
    client = console(users)
    assert client.get("/api/session").get_json() == {"login": True}
    answer = client.get(f"/api/clusters/c/{path}")
    assert answer.status_code == 401
    assert answer.get_json()["code"] == "login_needed"
    assert client.get("/").status_code == 200  # the form itself


def test_login_cookie_is_http_only_secure_and_same_site(users):
    client = console(users, encrypted=True)
    answer = log_in(client)
    assert answer.get_json()["role"] == "viewer"
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "Secure", "SameSite=Strict"} <= set(cookie.split("; "))


def test_wrong_passwords_are_refused_then_delayed(users):
    client = console(users)
    assert [log_in(client, password="wrong").status_code for _ in range(6)] == [403] * 5 + [429]
    assert "Retry-After" in log_in(client).headers


def test_logout_needs_the_token_and_ends_the_session(users):
    client = console(users)
    csrf = log_in(client).get_json()["csrf"]
    assert client.post("/api/logout").status_code == 403
    assert client.post("/api/logout", headers={"X-CSRF-Token": csrf}).status_code == 200
    assert client.get("/api/clusters/c/overview").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[half"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_request_from_another_origin_is_refused(users, headers):
    client = console(users)
    answer = client.post("/api/login", json={"user": "ann", "password": "right"}, headers=headers)
    assert (answer.status_code, answer.get_json()["code"]) == (403, "wrong_origin")


def test_unknown_host_name_is_refused():
    client = console(hosts=frozenset({"localhost", "::1"}))
    assert client.get("/api/session").status_code == 200
    assert client.get("/api/session", headers={"Host": "[::1]:8080"}).status_code == 200
    answer = client.get("/", headers={"Host": "evil.example"})
    assert (answer.status_code, answer.get_json()["code"]) == (421, "wrong_host")


def test_user_of_the_admin_page_needs_no_login():
    client = console(Logins(None, {"bob"}, lambda: 0))
    for user, role in (("bob", "operator"), ("ann", "viewer")):
        found = client.get("/api/session", environ_overrides={USER: user}).get_json()
        assert (found["user"], found["role"], found["login"]) == (user, role, False)


@pytest.mark.parametrize("path", ["/", "/topics/a", "/api/session", "/api/none", "/static/none"])
def test_every_response_has_isolation_headers(path):
    answer = console().get(path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Frame-Options"] == "DENY"


def test_page_has_the_base_of_its_mount_path():
    client = console()
    assert b'<base href="/"' in client.get("/topics/x").data
    mounted = client.get("/topics/x", environ_overrides={"SCRIPT_NAME": "/console"})
    assert b'<base href="/console/"' in mounted.data


def test_static_file_has_type_and_etag():
    client = console()
    answer = client.get("/static/index.html")
    assert answer.headers["Content-Type"].startswith("text/html")
    again = client.get("/static/index.html", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "name", ["../application.py", "%2e%2e/application.py", "..%2fapi.py", "a%00b"]
)
def test_static_path_cannot_leave_its_directory(name):
    assert console().get(f"/static/{name}").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/clusters/other/overview", 404),
        ("/api/clusters/c/topics?limit=x", 400),
        ("/api/clusters/c/topics?limit=1001", 400),
        ("/api/clusters/c/topics?sort=colour", 400),
        ("/api/clusters/c/topics?offset=-1", 400),
        ("/api/clusters/c/topics/none", 404),
        ("/api/clusters/c/groups/other/g", 404),
        ("/api/clusters/c/groups/coordinator/g", 503),
        ("/api/clusters/c/series?names=" + "a," * 300, 400),
        ("/api/clusters/c/series?since_ms=" + "9" * 30, 400),
        ("/api/nothing", 404),
    ],
)
def test_failed_request_returns_error_and_code(path, status):
    answer = console().get(path)
    assert answer.status_code == status
    assert set(answer.get_json()) == {"error", "code"}


def test_wrong_method_is_refused():
    assert console().get("/api/login").status_code in (404, 405)
    answer = console().put("/api/session")
    assert answer.status_code == 405
    assert answer.get_json()["error"]


def test_internal_error_is_logged_and_hidden(monkeypatch, caplog):
    monkeypatch.setattr("zkbroker.console.api.page_of", lambda rows: 1 / 0)
    answer = console().get("/api/clusters/c/topics")
    assert (answer.status_code, answer.get_json()["code"]) == (500, "internal")
    assert b"Zero" not in answer.data
    assert "ZeroDivisionError" in caplog.text


def test_topics_are_searched_sorted_and_paged():
    client = console()
    found = client.get("/api/clusters/c/topics?search=T&sort=-messages_in_s&limit=1").get_json()
    assert (found["total"], found["topics"][0]["name"]) == (1, "t")
    assert client.get("/api/clusters/c/topics?search=zz").get_json()["total"] == 0
    assert client.get("/api/clusters/c/topics?offset=1").get_json()["topics"] == []


def test_topic_is_shown_if_its_settings_cannot_be_read():
    found = console().get("/api/clusters/c/topics/t").get_json()
    assert found["settings"] is None
    assert found["settings_error"] == "nobody answers"
    assert [each["state"] for each in found["partitions"]] == ["ok", "under", "offline"]
    assert found["groups"][0]["name"] == "g"


def test_series_and_groups():
    client = console()
    assert client.get("/api/clusters/c/series?names=cluster.offline").get_json() == {
        "times_ms": [5],
        "series": {"cluster.offline": [1.0]},
    }
    assert client.get("/api/clusters/c/groups").get_json()["total"] == 1


def test_stream_begins_with_the_whole_publication():
    answer = console().get("/api/clusters/c/events?names=cluster.offline,none")
    text = answer.get_data(as_text=True)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    names = [line for line in text.split("\n") if line.startswith("event")]
    assert names == ["event: overview", "event: topics", "event: groups", "event: series"]
    assert '"values":{"cluster.offline":1}' in text
    assert ": still here" in text


def test_stream_contains_only_requested_parts():
    answer = console().get("/api/clusters/c/events?what=groups")
    assert "event: overview" not in answer.get_data(as_text=True)


def test_too_many_streams_are_refused(monkeypatch):
    monkeypatch.setattr("zkbroker.console.events.STREAMS", 0)
    answer = console().get("/api/clusters/c/events")
    assert (answer.status_code, answer.get_json()["code"]) == (503, "too_many_streams")


def test_closed_stream_frees_its_place(monkeypatch):
    monkeypatch.setattr("zkbroker.console.events.STREAMS", 1)
    app = console()
    for _ in range(3):
        answer = app.get("/api/clusters/c/events", buffered=True)
        assert answer.status_code == 200
        answer.close()


def test_stream_has_no_request_timeout():
    taken = []
    environ = {"zkbroker.take_time": lambda: taken.append(1)}
    console().get("/api/clusters/c/events", environ_overrides=environ, buffered=True)
    assert taken == [1]


def test_invalid_or_large_body_is_refused(users):
    client = console(users)
    assert client.post("/api/login", data=b"user=a").status_code == 400

    def post(body):
        return client.post("/api/login", data=body, content_type="application/json")

    deep = b'{"user":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert [post(body).status_code for body in (b"{", b"[]", deep)] == [400] * 3
    large = post(b" " * 300_000)
    assert (large.status_code, large.get_json()["code"]) == (413, "http_413")
