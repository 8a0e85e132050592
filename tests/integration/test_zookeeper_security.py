"""Logins at a real ZooKeeper, and the rights on the nodes that they create."""

import pytest

from tests.support.secure_zookeeper import SecureZooKeeper, jaas_line
from tests.support.zookeeper import expire, until
from zkbroker.config.zookeeper_security import take_zookeeper_security
from zkbroker.consumer import Consumer
from zkbroker.errors import ConfigError
from zkbroker.legacy07.generation import GENERATION
from zkbroker.legacy07.reading import read_partitions
from zkbroker.mirror import MirrorConfig, SourceConfig
from zkbroker.mirror.generations import open_source, open_target
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import (
    Create,
    NotPermitted,
    SessionState,
    ZkLoginRefused,
    ZkSession,
)
from zkbroker.zookeeper.acls import ALL, OPEN, READ, Grant

USERS = {"kafka": 'broker"secret\\', "other": "other-secret"}
WORLD_READS = Grant("world", "anyone", READ)
KAFKA = Grant("sasl", "kafka", ALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with SecureZooKeeper(tmp_path_factory.mktemp("zk"), USERS) as started:
        yield started


@pytest.fixture
def chroot(server, request):
    return f"{server.connect_string}/{request.node.name.replace('[', '-').rstrip(']')}"


def security(**properties):
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return take_zookeeper_security(given)[0]


def sasl(user="kafka", password=None, **more):
    line = jaas_line(user, password or USERS[user])
    return security(zookeeper_sasl_jaas_config=line, **more)


def digest(login="kafka:pw", **more):
    return security(zookeeper_auth_digest=login, **more)


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_sasl_login_owns_its_nodes(chroot, runtime):
    own = sasl(zookeeper_set_acl="true")
    with ZkSession(chroot, security=own, runtime=runtime) as session:
        session.create("/brokers/ids/1", b"{}", ephemeral=True, parents=True)
        session.create("/config/users/alice", b"scram", parents=True)
        session.create("/consumers/g/ids/c", b"", ephemeral=True, parents=True)
        session.ensure_path("/config/brokers")
        session.transaction([Create("/config/brokers/1", b"secret"), Create("/controller", b"1")])
        paths = ["", "/brokers", "/brokers/ids", "/brokers/ids/1", "/controller", "/config"]
        assert {acl for acl, _ in session.acls(paths)} == {frozenset({KAFKA, WORLD_READS})}
        paths = ["/config/users", "/config/users/alice", "/config/brokers", "/config/brokers/1"]
        assert {acl for acl, _ in session.acls(paths)} == {frozenset({KAFKA})}
        paths = ["/consumers", "/consumers/g/ids/c"]
        assert {acl for acl, _ in session.acls(paths)} == {OPEN}
        for stranger, login in (
            (security(), "has no login"),
            (sasl("other"), r"is logged in as other \(SASL\)"),
            (digest(), r"is logged in as kafka \(digest\)"),
        ):
            with ZkSession(chroot, security=stranger, runtime=runtime) as other:
                strangers_do_nothing(other)
                with pytest.raises(NotPermitted, match=f"; this session {login}$"):
                    other.get("/config/users")


def strangers_do_nothing(other):
    assert other.get("/brokers/ids/1")[0] == b"{}"
    for path in ("/config/users/alice", "/config/brokers/1", "/config/users"):
        with pytest.raises(NotPermitted, match="set the login of the brokers"):
            other.get(path)
        with pytest.raises(NotPermitted):
            other.children(path)
    for change in (
        lambda: other.set("/brokers/ids/1", b"x"),
        lambda: other.delete("/brokers/ids/1"),
        lambda: other.create("/brokers/topics", b""),
        lambda: other.delete("/controller"),
        lambda: other.create("/kafka-acl", b""),
        lambda: other.delete("/config", recursive=True),
    ):
        with pytest.raises(NotPermitted):
            change()
    with pytest.raises(NotPermitted):
        other.transaction([Create("/brokers/topics", b"")])
    other.create("/consumers/g/offsets/t/0", b"7", parents=True)
    other.delete("/consumers/g/offsets", recursive=True)


def test_nodes_stay_open_without_set_acl(chroot):
    with ZkSession(chroot, security=sasl()) as session:
        session.create("/config/users/u", b"", parents=True)
        assert session.acls(["/config/users/u", "/gone"]) == [(OPEN, 0), None]


def test_digest_login_owns_its_nodes(chroot):
    with (
        ZkSession(chroot, security=digest(zookeeper_set_acl="true")) as session,
        ZkSession(chroot, security=digest("kafka:other")) as other,
        ZkSession(chroot, security=digest()) as same,
    ):
        session.create("/brokers", b"")
        with pytest.raises(NotPermitted):
            other.set("/brokers", b"x")
        same.set("/brokers", b"x")


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
@pytest.mark.parametrize("login", [sasl(password="wrong"), sasl("other", password=USERS["kafka"])])
def test_wrong_password_is_refused_at_start(server, runtime, login):
    session = ZkSession(server.connect_string, security=login, runtime=runtime)
    with pytest.raises(ZkLoginRefused) as refused:
        session.start()
    text = str(refused.value)
    assert f"refused the login of {login.sasl.user} (SASL): check its password" in text
    assert login.sasl.password.reveal() not in text


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_new_session_logs_in_again(chroot, runtime):
    own = sasl(zookeeper_set_acl="true")
    with ZkSession(chroot, security=own, runtime=runtime) as session:
        session.create("/brokers", b"", parents=True)
        states = []
        session.on_state(states.append)
        expire(session)
        until(lambda: SessionState.LOST in states and states[-1] is SessionState.CONNECTED)
        session.create("/brokers/1", b"", ephemeral=True)
        assert session.acls(["/brokers/1"])[0][0] == {KAFKA, WORLD_READS}


def test_later_refused_login_is_retried(tmp_path, caplog):
    with SecureZooKeeper(tmp_path / "zk", {"kafka": "one"}) as server:
        own = security(zookeeper_sasl_jaas_config=jaas_line("kafka", "one"))
        with ZkSession(server.connect_string, security=own) as session:
            server.set_users({"kafka": "two"})
            server.restart()
            until(lambda: "login repeated reason=ZooKeeper at" in caplog.text)
            assert session.state is not SessionState.CONNECTED
            server.set_users({"kafka": "one"})
            server.restart()
            assert session.wait_connected(30)
            session.set("/", b"x")


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_server_without_sasl_is_reported(zookeeper, runtime):
    with pytest.raises(ZkLoginRefused, match="accepts no SASL logins: give its server a JAAS file"):
        ZkSession(zookeeper.connect_string, security=sasl(), runtime=runtime).start()


def test_server_that_requires_login_is_reported(tmp_path):
    with SecureZooKeeper(tmp_path / "zk", {"kafka": "one"}, login_required=True) as server:
        with pytest.raises(
            ZkLoginRefused, match=r"requires a login: set zookeeper\.sasl\.jaas\.config"
        ):
            ZkSession(server.connect_string).start()
        wrong = security(zookeeper_sasl_jaas_config=jaas_line("kafka", "two"))
        with pytest.raises(ZkLoginRefused, match="refused the login of kafka"):
            ZkSession(server.connect_string, security=wrong).start()
        right = security(zookeeper_sasl_jaas_config=jaas_line("kafka", "one"))
        with ZkSession(server.connect_string + "/chroot", security=right) as session:
            session.create("/a")
            clients_of_0_7_log_in(session)


def clients_of_0_7_log_in(session):
    session.create("/brokers/ids/3", b"old:127.0.0.1:9", parents=True)
    session.create("/consumers/g/offsets/t/3-0", b"70", parents=True)
    given = {
        "kafka.generation": "0.7",
        "zk.connect": session.connect,
        "zookeeper.sasl.jaas.config": jaas_line("kafka", "one"),
    }
    config = MirrorConfig(
        sources=(SourceConfig(properties={**given, "groupid": "g"}),), target=given, whitelist="t"
    )
    with open_source(config.sources[0], get_runtime("threads")) as source:
        assert list(source.cluster.brokers()) == [3]
        assert list(source.committed().values()) == [70]
    target = open_target(config, get_runtime("threads"))
    assert list(target.cluster.brokers()) == [3]
    target.cluster.close()
    settings = GENERATION.source_settings({**given, "groupid": "g"})
    with Consumer.create(settings) as connector:
        assert connector.consumer_id.startswith("g_")
    login = take_zookeeper_security(given)[0]
    reading = read_partitions("t", [], session.connect, -2, exit_at_end=True, security=login)
    with pytest.raises(ConfigError, match="topic t has no partition"), reading:
        pass
