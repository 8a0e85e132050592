"""The console on a cluster with TLS, logins and ACLs."""

import json

import pytest

from tests.support.certificates import Authority
from tests.support.consoles import open_producer, running_console
from tests.support.sasl_cluster import PASSWORD, SECURE, USER, secured_properties
from zkbroker.producer import KeyedMessage
from zkbroker.registry.acls import add_acls, ensure_acl_tree
from zkbroker.registry.scram_users import write_credentials
from zkbroker.security import CLUSTER, Operation, ResourceType
from zkbroker.security.acls import Acl, Pattern, Permission
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.security.sasl.scram import SHA_512, make_credential
from zkbroker.zookeeper.embedded import free_port
from zkbroker.zookeeper.session import ZkSession

ADMIN = "hush-admin-4711"
LOGIN = "hush-login-4711"
SECRETS = (PASSWORD, ADMIN, LOGIN, "of brokers", "her=secret")


@pytest.fixture(scope="module")
def admin_port():
    return free_port()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority()
    return made, made.trusted(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(local_cluster, authority, admin_port, tmp_path_factory):
    directory = tmp_path_factory.mktemp("broker")
    users = directory / "users"
    users.write_text(f"console:{PasswordHash.of(ADMIN)}\n")
    made, trusted = authority
    properties = {
        **secured_properties(made.issue("broker").pem(directory), trusted),
        "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",
        "admin.port": str(admin_port),
        "admin.users.file": str(users),
    }
    with local_cluster(1, properties=properties) as running:
        with ZkSession(running.zookeeper) as session:
            ensure_acl_tree(session)
            made_credential = {SHA_512.mechanism: make_credential(SHA_512, PASSWORD)}
            write_credentials(session, USER, made_credential)
        running.create_topic("seen")
        running.create_topic("closed")
        running.create_topic("hidden")
        yield running


@pytest.fixture(scope="module")
def console(cluster, authority, admin_port, tmp_path_factory):
    directory = tmp_path_factory.mktemp("console")
    users = directory / "users"
    users.write_text(f"ann:{PasswordHash.of(LOGIN)}\n")
    properties = directory / "live.properties"
    properties.write_text(
        f"bootstrap.servers={cluster.bootstrap(SECURE)}\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username={USER}\nsasl.password={PASSWORD}\n"
        f"ssl.truststore.location={authority[1]}\n"
        f"console.admin.port={admin_port}\n"
        "console.admin.user=console\n"
        f"console.admin.password={ADMIN}\n",
        encoding="utf-8",
    )
    with running_console(
        "--cluster", f"live={properties}", "--interval", "0.5", "--users", str(users),
        "--operator", "ann", "--log-level", "debug",
    ) as client:  # fmt: skip
        client.log_in("ann", LOGIN)
        yield client
        log = client.log()
        assert not [each for each in SECRETS if each in log]


def allow(cluster, kind, name, *operations):
    with ZkSession(cluster.zookeeper) as session:
        acls = [Acl(f"User:{USER}", Permission.ALLOW, each) for each in operations]
        add_acls(session, Pattern(kind, name), acls)


def test_console_shows_authorized_topics_only(cluster, console):
    topic = ResourceType.TOPIC
    allow(cluster, topic, "seen", Operation.READ, Operation.DESCRIBE_CONFIGS)
    allow(cluster, topic, "closed", Operation.DESCRIBE)
    found = console.eventually(
        "topics", lambda view: {row["name"] for row in view["topics"]} == {"seen", "closed"}
    )
    assert found["total"] == 2
    with open_producer(cluster) as producer:
        producer.send(KeyedMessage("closed", b"hello"))
        producer.send(KeyedMessage("seen", b"hello"))
    console.eventually(
        "messages?topic=seen",
        lambda view: [each["value"]["text"] for each in view["messages"]] == ["hello"],
    )
    where = f"api/clusters/{console.cluster}"
    status, refusal = console.refused(f"{where}/messages?topic=closed")
    assert (status, refusal["code"]) == (403, "not_authorized")
    assert "the console's own user may not do this" in refusal["error"]
    assert console.refused(f"{where}/messages?topic=hidden")[0] == 404


def test_operator_changes_only_what_the_console_may(cluster, console):
    body = {"name": "made", "partitions": 1, "replication": 1, "confirm": "made"}
    status, refusal = console.post("topics", body)
    assert (status, refusal["code"]) == (403, "not_authorized")
    allow(cluster, *CLUSTER, Operation.CREATE, Operation.DESCRIBE)
    allow(cluster, ResourceType.TOPIC, "made", Operation.DESCRIBE)
    # Brokers follow a change of ACLs a moment later.
    console.eventually("overview", lambda view: console.post("topics", body)[0] in (200, 409))
    console.eventually("topics?search=made", lambda view: view["total"] == 1)


def test_console_logs_in_to_admin_pages(console):
    console.eventually("overview", lambda view: view["brokers"][0]["cpu"] is not None)
    assert console.of("clients")["sources"] == [1]


def test_responses_contain_no_secret(cluster, console):
    allow(cluster, *CLUSTER, Operation.ALL)
    console.eventually("settings", lambda view: isinstance(view["brokers"]["1"], list))
    found = b""
    for path in (
        "overview", "topics", "topics/seen", "topics/seen/partitions/0/log", "groups", "clients",
        "settings", "messages?topic=seen", "mirrors", "loads", "series?names=cluster.offline",
    ):  # fmt: skip
        status, headers, data = console.ask("GET", f"api/clusters/{console.cluster}/{path}")
        assert status in (200, 404), (path, data)
        found += data + str(headers).encode()
    status, _, data = console.ask("GET", "api/session")
    assert status == 200
    found += data
    assert not [each for each in SECRETS if json.dumps(each)[1:-1].encode() in found]
    assert not [each for each in SECRETS if each.encode() in found]
    rows = {each["name"]: each for each in console.of("settings")["brokers"]["1"]}
    sensitive = [each for each in rows.values() if each["sensitive"]]
    assert sensitive
    assert all(each["value"] is None for each in sensitive)
