import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import kazoo.handlers.utils
import pytest

from tests.support.process import exists
from tests.support.proxy import Proxy
from tests.support.zookeeper import expire, until
from tests.support.zookeeper_quorum import EmbeddedQuorum
from zkbroker.errors import RegistryError
from zkbroker.zookeeper import (
    BadVersion,
    Check,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    SessionState,
    SetData,
    TransactionFailed,
    ZkSession,
)
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper, free_port


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_nodes_are_created_read_changed_and_deleted(chroot: str, runtime: str) -> None:
    with ZkSession(chroot, runtime=runtime) as session:
        assert session.create("/a/b", b"1", parents=True) == "/a/b"
        data, stat = session.get("/a/b")
        assert (data, stat.version, stat.ephemeral_owner) == (b"1", 0, 0)
        assert session.set("/a/b", b"2", version=0).version == 1
        with pytest.raises(BadVersion):
            session.set("/a/b", b"3", version=0)
        with pytest.raises(NodeExists):
            session.create("/a/b")
        with pytest.raises(NoNode):
            session.create("/none/b")
        with pytest.raises(NotEmpty):
            session.delete("/a")
        with pytest.raises(NoNode):
            session.children("/none")
        session.delete("/none", missing_ok=True)
        assert session.exists("/none") is None
        assert session.children("/a") == ["b"]
        answers = session.get_many(["/a/b", "/none"])
        assert answers[0] is not None
        assert answers[0][0] == b"2"
        assert answers[1] is None
        first = session.create("/a/n_", sequential=True)
        assert first == "/a/n_0000000001"
        session.create("/a/e", ephemeral=True)
        stat_e = session.exists("/a/e")
        assert stat_e is not None
        assert stat_e.ephemeral_owner == session.session_id
        session.delete("/a", recursive=True)
        assert session.exists("/a") is None


def test_transaction_is_atomic_and_names_failed_operation(zk: ZkSession) -> None:
    zk.transaction([Create("/a"), Create("/a/b", b"x"), Check("/a/b", 0), SetData("/a/b", b"y", 0)])
    assert zk.get("/a/b")[0] == b"y"
    with pytest.raises(TransactionFailed) as refused:
        zk.transaction([Create("/c"), Create("/a/b"), Delete("/a/b")])
    assert (refused.value.index, refused.value.path) == (1, "/a/b")
    assert isinstance(refused.value.cause, NodeExists)
    assert zk.exists("/c") is None
    with pytest.raises(TransactionFailed) as refused:
        zk.transaction([Check("/gone"), Create("/c")])
    assert isinstance(refused.value.cause, NoNode)
    zk.transaction([])


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_watch_sets_its_event(chroot: str, runtime: str) -> None:
    with ZkSession(chroot, runtime=runtime) as session, ZkSession(chroot) as other:
        changed, made, children = (session.runtime.event() for _ in range(3))
        session.create("/w")
        session.get("/w", changed)
        session.exists("/later", made)
        session.children("/w", children)
        other.set("/w", b"new")
        other.create("/later")
        other.create("/w/child")
        assert changed.wait(60)
        assert made.wait(60)
        assert children.wait(60)


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_watch_is_set_when_connection_is_lost(
    zookeeper: EmbeddedZooKeeper, chroot: str, runtime: str
) -> None:
    _, _, tree = chroot.partition("/")
    with (
        Proxy(int(zookeeper.connect_string.rpartition(":")[2])) as proxy,
        ZkSession(chroot) as other,
        ZkSession(
            f"127.0.0.1:{proxy.port}/{tree}", session_timeout_ms=4000, runtime=runtime
        ) as session,
    ):
        made = session.runtime.event()
        session.exists("/later", made)
        proxy.cut()
        other.create("/later")
        assert made.wait(60), "the server has nothing more to tell of it"
        assert session.state is not SessionState.CONNECTED
        proxy.heal()


def test_missing_zookeeper_is_one_error() -> None:
    port = free_port()
    session = ZkSession(f"127.0.0.1:{port}/chroot", connect_timeout_ms=300)
    with pytest.raises(RegistryError, match=rf"no ZooKeeper answered at 127.0.0.1:{port}.*connect"):
        session.start()
    with pytest.raises(RegistryError, match=r"zookeeper\.connect"):
        ZkSession("127.0.0.1:http", connect_timeout_ms=300).start()


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_expired_session_is_reported_lost_and_replaced(chroot: str, runtime: str) -> None:
    with ZkSession(chroot, runtime=runtime) as session:
        session.create("/mine", ephemeral=True)
        seen: list[SessionState] = []
        unsubscribe = session.on_state(seen.append)
        before = session.session_id
        expire(session)
        # ZooKeeper may let the old session connect once more before it ends.
        until(lambda: seen[-2:] == [SessionState.LOST, SessionState.CONNECTED])
        assert session.generation == 1
        assert session.session_id != before
        assert session.exists("/mine") is None
        unsubscribe()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server that a test may stop; it has to run again at the end of the test."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


def test_lease_ends_when_server_is_silent(server: EmbeddedZooKeeper) -> None:
    with ZkSession(server.connect_string, session_timeout_ms=4000) as session:
        assert session.lease_valid()
        server.pause()
        until(lambda: not session.lease_valid())
        assert session.generation == 0, "only the server can say that the session is over"
        server.resume()
        until(session.lease_valid)


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_lease_is_timeout_granted_by_server(chroot: str, runtime: str) -> None:
    with ZkSession(chroot, session_timeout_ms=3_600_000, runtime=runtime) as session:
        assert session._lease_s == 120, "the embedded server grants two minutes at most"
    with ZkSession(chroot, session_timeout_ms=5000, runtime=runtime) as session:
        assert session._lease_s == 5


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_connect_timeout_leaves_time_for_next_address(
    chroot: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    original = kazoo.handlers.utils.create_tcp_connection

    def create(module: object, address: object, timeout: float, **options: object) -> object:
        tried.append(timeout)
        return original(module, address, timeout=timeout, **options)

    monkeypatch.setattr("kazoo.handlers.utils.create_tcp_connection", create)
    with ZkSession(chroot, session_timeout_ms=6000, runtime=runtime):
        assert tried == [2.0]


def test_requests_of_closed_session_fail(chroot: str) -> None:
    session = ZkSession(chroot).start()
    session.close()
    session.close()
    assert session.state is SessionState.LOST
    with pytest.raises(SessionLost, match="closed"):
        session.get("/")


def test_session_outlives_restart_of_server_and_logs_each_state_once(
    server: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with ZkSession(server.connect_string, session_timeout_ms=60_000) as session:
        session.create("/mine", b"x", ephemeral=True)
        port = server.port
        server.kill()
        until(lambda: session.state is SessionState.SUSPENDED)
        server.start()
        assert server.port == port
        assert session.wait_connected(60)
        assert session.get("/mine")[0] == b"x"
    logged = [each for each in caplog.records if each.name.startswith("zkbroker.zookeeper.c")]
    assert [each.getMessage().split(" zookeeper=")[0] for each in logged] == [
        "session started",
        "session state=suspended generation=0",
        "session state=connected generation=0",
        "session state=lost generation=1",
        "session closed",
    ]
    assert [each.levelname for each in logged].count("WARNING") == 1


def test_close_ends_waiting_request(server: EmbeddedZooKeeper) -> None:
    session = ZkSession(server.connect_string, session_timeout_ms=60_000).start()
    server.kill()
    try:
        until(lambda: session.state is SessionState.SUSPENDED)
        failed: list[Exception] = []

        def read() -> None:
            try:
                session.get("/")
            except RegistryError as error:
                failed.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        session.close()
        reader.join(60)
        assert not reader.is_alive()
        assert failed
    finally:
        server.start()


def test_embedded_server_reports_missing_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(RegistryError, match="apt-get install openjdk"):
        EmbeddedZooKeeper(tmp_path).start()
    temporary = EmbeddedZooKeeper()
    with pytest.raises(RegistryError):
        temporary.start()
    assert not temporary.data_dir.exists()


def test_embedded_server_names_package_of_missing_jars(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RegistryError, match=r"pip install .zkbroker\[spark\]"):
        EmbeddedZooKeeper(tmp_path).start()


def test_embedded_server_reports_port_in_use(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=f"port {zookeeper.port} is taken"):
        EmbeddedZooKeeper(tmp_path, port=zookeeper.port).start()


def test_embedded_server_accepts_any_directory_name_and_outlives_starting_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    name = "relative with a space, Zäh 中 \U0001f418 and back\\slash"
    server = EmbeddedZooKeeper(name)
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    pid = server.pid
    with server, ZkSession(server.connect_string) as session:
        session.create("/kept", b"x")
        assert server.pid == pid is not None
    assert list((tmp_path / name).glob("version-2/log.*"))


def test_embedded_server_reports_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RegistryError, match=r"need Java 17 or newer, and .* is version 8"):
        EmbeddedZooKeeper(tmp_path / "data").start()


def test_embedded_server_ends_with_killed_parent(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import os, signal
        from zkbroker.zookeeper.embedded import EmbeddedZooKeeper
        server = EmbeddedZooKeeper({str(tmp_path / "zk")!r}).start()
        print(server.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    pid = int(done.stdout)
    until(lambda: not exists(pid))


def test_session_survives_loss_of_quorum_leader() -> None:
    with EmbeddedQuorum() as quorum, ZkSession(quorum.connect_string + "/q") as session:
        session.create("/kept", b"x")
        leader = quorum.leader
        assert leader is not None
        leader.kill()
        until(lambda: quorum.leader is not None)
        assert session.get("/kept")[0] == b"x"
        name = f"/{uuid.uuid4().hex}"
        until(lambda: _created(session, name))


def _created(session: ZkSession, path: str) -> bool:
    try:
        session.create(path)
    except NodeExists:
        return True
    except RegistryError:
        return False
    return True


@pytest.mark.parametrize("path", ["/a/../b", "/..", "/a/\udcff"])
def test_invalid_path_is_refused_and_keeps_connection(zk: ZkSession, path: str) -> None:
    changes = [
        lambda: zk.get(path),
        lambda: zk.exists_many([path]),
        lambda: zk.create(path),
        lambda: zk.set_many([SetData(path, b"")]),
        lambda: zk.transaction([Create(path)]),
    ]
    generation = zk.generation
    for change in changes:
        with pytest.raises(RegistryError, match="not a path of a node"):
            change()
    zk.ensure_path("/whole")
    assert zk.generation == generation


def test_second_server_on_data_directory_is_refused(server: EmbeddedZooKeeper) -> None:
    with pytest.raises(RegistryError, match="in use by another ZooKeeper"):
        EmbeddedZooKeeper(server.data_dir).start()


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_thousands_of_responses_match_their_requests(chroot: str, runtime: str) -> None:
    with ZkSession(chroot, runtime=runtime) as session:
        contents = {f"/n{number}": b"%d " % number * (number % 90) for number in range(3000)}
        refused = session.transactions([[Create(path, each)] for path, each in contents.items()])
        assert not any(refused)
        found = session.get_many([*contents, "/absent"])
        assert [each and each[0] for each in found] == [*contents.values(), None]
