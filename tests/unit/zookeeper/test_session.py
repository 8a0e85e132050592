"""Requests of a session, with a scripted client."""

import kazoo.exceptions as kz
import pytest

from tests.support.clocks import Clock
from zkbroker.zookeeper import (
    BadVersion,
    ConnectionLost,
    Create,
    NoNode,
    SessionLost,
    SetData,
    TransactionFailed,
    ZkSession,
    connection,
)
from zkbroker.zookeeper.session import FLIGHT


class Stat:
    version, ephemeralOwner, ctime, numChildren, czxid, mzxid = 3, 0, 1, 0, 9, 9


class Result:
    """A result that is ready with a value or an error, or (None) not ready."""

    def __init__(self, client, answer):
        self.client, self.answer = client, answer

    def wait(self, timeout_s):
        self.client.waited.append(timeout_s)

    def ready(self):
        return self.answer is not None

    def get(self, block):
        self.client.outstanding -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class ScriptedClient:
    def __init__(self):
        self.connected = True
        self.chroot = ""
        self.asked = []
        self.waited = []
        self.outstanding = self.most_outstanding = 0
        self.answers = {}
        self.commits = []

    def ask(self, path, default):
        self.asked.append(path)
        self.outstanding += 1
        self.most_outstanding = max(self.most_outstanding, self.outstanding)
        answers = self.answers.get(path)
        return Result(self, answers.pop(0) if answers else default)

    def get_async(self, path, watch=None):
        return self.ask(path, (b"x", Stat))

    def exists_async(self, path, watch=None):
        return self.ask(path, Stat)

    def set_async(self, path, data, version):
        return self.ask(path, Stat)

    def create_async(self, path, data, **options):
        return self.ask(path, path)

    def transaction(self):
        return ScriptedTransaction(self)


class ScriptedTransaction:
    def __init__(self, client):
        self.client, self.path = client, ""

    def create(self, path, data, acl, ephemeral):
        self.path = path

    def commit_async(self):
        return self.client.ask(self.path, ["done"])


@pytest.fixture
def client():
    return ScriptedClient()


@pytest.fixture
def session(client):
    made = ZkSession("h:1", session_timeout_ms=6000)
    made._client = client
    made._connected.set()
    return made


def test_change_without_connection_fails_without_request(session, client):
    client.connected = False
    session._connected.clear()
    for change in (
        lambda: session.create("/a"),
        lambda: session.set("/a", b""),
        lambda: session.delete("/a"),
        lambda: session.transaction([Create("/a")]),
        lambda: session.set_many([SetData("/a", b"")]),
    ):
        with pytest.raises(ConnectionLost, match="not connected to ZooKeeper at h:1"):
            change()
    assert client.asked == client.waited == []


def test_read_waits_for_connection(session, client):
    client.connected = False
    session._connected.clear()

    def reconnect():
        client.connected = True
        session._connected.set()

    session.runtime.spawn(lambda: (session.runtime.sleep(0.02), reconnect()), name="reconnect")
    assert session.get("/a")[0] == b"x"
    assert client.asked == ["/a"]


def test_read_times_out_without_connection(session, client):
    client.connected = False
    session._connected.clear()
    session.request_timeout_s = 0.01
    with pytest.raises(ConnectionLost):
        session.get_many(["/a", "/b"])
    assert client.asked == []


def test_only_reads_are_repeated_after_connection_loss(session, client):
    client.answers = {"/a": [kz.ConnectionLoss(), (b"y", Stat)], "/b": [kz.ConnectionLoss()]}
    assert session.get("/a")[0] == b"y"
    assert client.asked == ["/a", "/a"]
    with pytest.raises(ConnectionLost, match="/b: the connection to ZooKeeper broke"):
        session.create("/b")


@pytest.mark.parametrize(
    "call",
    [
        lambda session, paths: session.get_many(paths),
        lambda session, paths: session.exists_many(paths),
        lambda session, paths: session.set_many([SetData(path, b"") for path in paths]),
        lambda session, paths: session.transactions([[Create(path)] for path in paths]),
    ],
)
def test_all_responses_of_a_call_share_one_timeout(session, client, monkeypatch, call):
    clock = Clock(0)
    monkeypatch.setattr(connection, "time", clock)

    def wait(result, timeout_s):
        # Each response comes a second after the previous one.
        clock.now += min(timeout_s, 1.0)
        if timeout_s < 1.0:
            result.answer = None

    monkeypatch.setattr(Result, "wait", wait)
    with pytest.raises(ConnectionLost, match="no answer from ZooKeeper at h:1"):
        call(session, [f"/{number}" for number in range(100)])
    assert clock.now == session.request_timeout_s == 8


def test_many_requests_are_pipelined_in_order(session, client):
    paths = [f"/{number}" for number in range(2 * FLIGHT + 7)]
    client.answers = {"/5": [kz.NoNodeError()], f"/{FLIGHT}": [kz.NoNodeError()]}
    answers = session.get_many(paths)
    assert client.asked == paths
    assert [index for index, answer in enumerate(answers) if answer is None] == [5, FLIGHT]
    assert client.most_outstanding == FLIGHT
    assert len(session.exists_many(paths)) == len(paths)
    assert len(session.set_many([SetData(path, b"") for path in paths])) == len(paths)
    assert session.transactions([[Create(path)] for path in paths]) == [None] * len(paths)
    assert client.most_outstanding == FLIGHT


def test_only_failed_flight_is_repeated(session, client):
    paths = [f"/{number}" for number in range(FLIGHT + 1)]
    client.answers = {f"/{FLIGHT}": [kz.ConnectionLoss()]}
    assert len(session.get_many(paths)) == FLIGHT + 1
    assert client.asked == [*paths, paths[-1]]


def test_each_of_many_changes_has_its_own_result(session, client):
    client.answers = {
        "/gone": [kz.NoNodeError()],
        "/old": [kz.BadVersionError()],
        "/refused": [[kz.NodeExistsError()]],
    }
    answers = session.set_many([SetData(path, b"") for path in ("/gone", "/ok", "/old")])
    assert [type(answer).__name__ for answer in answers] == ["NoNode", "NodeStat", "BadVersion"]
    assert isinstance(answers[0], NoNode)
    assert isinstance(answers[2], BadVersion)
    refused = session.transactions([[Create("/refused")], [Create("/ok")]])
    assert isinstance(refused[0], TransactionFailed)
    assert refused[1] is None


def test_session_that_is_not_started_raises():
    with pytest.raises(SessionLost, match="not started"):
        ZkSession("h:1").get("/")
