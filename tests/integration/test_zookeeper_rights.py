"""Brokers that own their nodes in ZooKeeper, and the tool that secures an existing tree."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from tests.support.clusters import TestCluster
from tests.support.secure_zookeeper import SecureZooKeeper, jaas_line
from zkbroker.admin.zookeeper_rights import secure, unsecure
from zkbroker.cli.main import cli
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.config.zookeeper_security import take_zookeeper_security
from zkbroker.consumer import ConsumerConnector
from zkbroker.errors import RegistryError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.zookeeper import NotPermitted, ZkSession
from zkbroker.zookeeper.acls import ALL, OPEN, READ, Grant, acl_for

LOGIN = {"zookeeper.sasl.jaas.config": jaas_line("kafka", "broker-secret")}
OWNER = Grant("sasl", "kafka", ALL)
READABLE = frozenset({OWNER, Grant("world", "anyone", READ)})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    users = {"kafka": "broker-secret", "other": "other-secret"}
    with SecureZooKeeper(tmp_path_factory.mktemp("zk"), users) as started:
        yield started


def security(**more):
    given = {key.replace("_", "."): value for key, value in more.items()}
    return take_zookeeper_security({**LOGIN, **given})[0]


def tree(session, path=""):
    yield path
    for name in session.children(path or "/"):
        yield from tree(session, f"{path}/{name}")


def wrong_rights(session):
    """Nodes whose rights differ from those that a broker with `zookeeper.set.acl` sets."""
    nodes = list(tree(session))
    wrong = {}
    for node, (acl, _) in zip(nodes, session.acls([node or "/" for node in nodes]), strict=True):
        wanted = frozenset(OWNER if each.scheme == "auth" else each for each in acl_for(node))
        if acl != wanted:
            wrong[node] = acl
    return wrong


def test_cluster_with_login_owns_every_node(server):
    chroot = f"{server.connect_string}/own"
    given = {**LOGIN, "zookeeper.set.acl": "true"}
    with TestCluster(brokers=2, zookeeper=chroot, properties=given) as cluster:
        topic = cluster.create_topic(partitions=2, replication=2)
        config = ProducerConfig.from_properties({"zookeeper.connect": chroot})
        with Producer(config) as producer:
            producer.send(KeyedMessage(topic, b"hello"))
        group = {"zookeeper.connect": chroot, "group.id": "g", "auto.offset.reset": "smallest"}
        group["consumer.timeout.ms"] = "20000"
        with ConsumerConnector(ConsumerConfig.from_properties(group)) as consumer:
            (stream,) = consumer.create_message_streams({topic: 1})[topic]
            assert next(iter(stream)).value == b"hello"
            consumer.commit_offsets()
        with ZkSession(chroot, security=security()) as session:
            assert wrong_rights(session) == {}
            assert {"/brokers/ids/1", "/controller", "/consumers/g"} <= set(tree(session))
        with ZkSession(chroot) as stranger:
            with pytest.raises(NotPermitted):
                stranger.children("/config/users")
            for leaf in ("/controller", "/brokers/ids/1", f"/brokers/topics/{topic}"):
                with pytest.raises(NotPermitted):
                    stranger.set(leaf, b"{}")
                with pytest.raises(NotPermitted):
                    stranger.delete(leaf, recursive=True)


@pytest.fixture
def genuine(server, request):
    """A tree as a genuine broker without logins leaves it, beside a node of another program."""
    chroot = f"{server.connect_string}/{request.node.name}"
    with ZkSession(chroot) as session:
        for path in (
            "/admin/delete_topics",
            "/brokers/ids/1",
            "/brokers/seqid",
            "/brokers/topics/t/partitions/0/state",
            "/cluster/id",
            "/config/brokers/0",
            "/config/changes/config_change_0000000000",
            "/config/users/alice",
            "/consumers/g/offsets/t/0",
            "/controller_epoch",
            "/kafka-acl/Topic/t",
            "/kafka-acl-changes",
            "/somebody/else",
        ):
            session.create(path, b"x", parents=True)
    return chroot


def test_tree_is_secured_and_unsecured(genuine):
    with ZkSession(genuine, security=security()) as session:
        found = secure(session, dry_run=True)
        assert (found.changed, found.kept) == (26, 0)
        assert session.acls(["/brokers"]) == [(OPEN, 0)]
        done = secure(session)
        assert (done.changed, done.kept, done.left) == (26, 0, ["/somebody"])
        assert set(wrong_rights(session)) == {"/somebody", "/somebody/else"}
        again = secure(session)
        assert (again.changed, again.kept) == (0, 26)
        with ZkSession(genuine) as stranger, pytest.raises(NotPermitted):
            unsecure(stranger)
        assert set(wrong_rights(session)) == {"/somebody", "/somebody/else"}
        assert unsecure(session).changed == 26
        assert {acl for acl, _ in session.acls([path or "/" for path in tree(session)])} == {OPEN}


def test_interrupted_walk_can_be_repeated(genuine):
    class Stop(Exception):
        pass

    def stop(paths):
        if len(wrong_rights(session)) < 16:
            raise Stop
        return children_many(paths)

    with ZkSession(genuine, security=security()) as session:
        children_many, session.children_many = session.children_many, stop
        with pytest.raises(Stop):
            secure(session)
        session.children_many = children_many
        half = len(wrong_rights(session))
        assert 2 < half < 26
        done = secure(session)
        assert done.changed + done.kept == 26
        assert done.changed == half - 2


def test_secure_without_login_is_refused(genuine):
    with ZkSession(genuine) as session:
        with pytest.raises(RegistryError, match="this session has no login"):
            secure(session)
        assert session.acls(["/brokers"]) == [(OPEN, 0)]


def test_zookeeper_security_command_reads_login_from_files(genuine, tmp_path, server):
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f"Client {{ {LOGIN['zookeeper.sasl.jaas.config']} }};\n")
    config = tmp_path / "zk.properties"
    config.write_text(f"java.security.auth.login.config={jaas}\n")

    def run(*arguments, **environment):
        done = CliRunner(env=environment).invoke(cli, ["zookeeper-security", *arguments])
        return done.exit_code, done.stdout, f"{done.stderr}{done.exception}"

    code, out, err = run("secure", "-z", genuine, "--command-config", str(config))
    assert (code, out) == (
        0,
        "26 nodes changed, 0 had these rights already\nnot Kafka's, and not changed: /somebody\n",
    )
    # As scripts call the genuine tool.
    options = (f"--zookeeper.connect={genuine}", "--zookeeper.acl=unsecure")
    code, out, err = run(*options, KAFKA_OPTS=f"-Djava.security.auth.login.config={jaas}")
    assert (code, out.splitlines()[0]) == (0, "26 nodes changed, 0 had these rights already")
    code, out, err = run("secure", "-z", genuine)
    assert code == 1
    assert "this session has no login" in err
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(f"zookeeper.sasl.jaas.config={jaas_line('kafka', 'nope')}\n")
    code, out, err = run("secure", "-z", genuine, "--command-config", str(wrong))
    assert code == 1
    assert "refused the login of kafka (SASL): check its password" in err
    assert "nope" not in err


def test_broker_with_wrong_zookeeper_password_exits(server, tmp_path):
    file = tmp_path / "server.properties"
    file.write_text(
        f"zookeeper.connect={server.connect_string}/wrong\nlog.dirs={tmp_path / 'data'}\n"
        f"zookeeper.sasl.jaas.config={jaas_line('kafka', 'nope')}\n"
        "zookeeper.connection.timeout.ms=60000\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "broker", str(file)],
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert "refused the login of kafka (SASL): check its password" in done.stderr
    assert "nope" not in done.stderr + done.stdout


def test_acls_match_those_seen_by_genuine_tools(server):
    """The rights in the client's own words, as another program reads them."""
    with ZkSession(
        f"{server.connect_string}/seen", security=security(zookeeper_set_acl="true")
    ) as s:
        s.create("/config/users/alice", b"{}", parents=True)
    client = KazooClient(
        hosts=f"{server.connect_string}/seen",
        sasl_options={
            "mechanism": "DIGEST-MD5",
            "username": "kafka",
            "password": "broker-secret",
        },
    )
    client.start()
    try:
        shown = {
            path: sorted((acl.id.scheme, acl.id.id, acl.perms) for acl in client.get_acls(path)[0])
            for path in ("/config", "/config/users/alice")
        }
    finally:
        client.stop()
        client.close()
    assert json.loads(json.dumps(shown)) == {
        "/config": [["sasl", "kafka", 31], ["world", "anyone", 1]],
        "/config/users/alice": [["sasl", "kafka", 31]],
    }
