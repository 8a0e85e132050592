"""Actions of operators on a real cluster, over TLS and with logins."""

import contextlib

import pytest

from tests.support.certificates import Authority
from tests.support.consoles import (
    ConsoleClient,
    open_producer,
    read_messages,
    running_console,
)
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import KeyedMessage
from zkbroker.registry.group_offsets import commit_offset, read_offset
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.session import ZkSession


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(3, replication=2) as cluster:
        cluster.create_topic("visits", partitions=3)
        yield cluster


@pytest.fixture(scope="module")
def console(cluster, tmp_path_factory):
    directory = tmp_path_factory.mktemp("console")
    authority = Authority()
    users = directory / "users"
    users.write_text(f"ann:{PasswordHash.of('look')}\nbob:{PasswordHash.of('change')}\n")
    arguments = ["-z", cluster.zookeeper, "--interval", "0.5", "--users", str(users)]
    arguments += ["--operator", "bob", "--tls-key", authority.issue("localhost").pem(directory)]
    with running_console(*arguments, cafile=authority.trusted(directory)) as client:
        yield client


@pytest.fixture(scope="module")
def operator(console):
    session = console.log_in("bob", "change")
    assert session["role"] == "operator"
    console.eventually("overview", lambda view: view["topics"] >= 1 and view["controller"])
    return console


@pytest.fixture
def viewer(operator):
    client = ConsoleClient(operator.base)
    client._context = operator._context
    assert client.log_in("ann", "look")["role"] == "viewer"
    return client


def confirmed(client, path, body):
    """Plan and confirm an action; return the plan."""
    status, plan = client.post(path, {**body, "dry_run": True})
    assert status == 200, plan
    status, refused = client.post(path, body)
    assert (status, refused["code"]) == (409, "not_confirmed")
    status, found = client.post(path, {**body, "confirm": plan["confirm"]})
    assert status == 200, found
    assert found["done"] == plan["plan"]
    return plan


def topic(client, name, good):
    return client.eventually(
        f"topics?search={name}",
        lambda view: any(row["name"] == name and good(row) for row in view["topics"]),
    )


def test_topic_is_created_altered_and_deleted(operator):
    plan = confirmed(
        operator,
        "topics",
        {"name": "made", "partitions": 2, "replication": 2, "settings": {"retention.ms": 5000}},
    )
    assert plan["confirm"] == "made"
    assert plan["plan"] == [
        "create topic made: 2 partitions, 2 replicas each",
        "set retention.ms = 5000",
    ]
    topic(operator, "made", lambda row: row["partitions"] == 2 and row["settings_changed"] == 1)
    plan = confirmed(
        operator,
        "topics/made/alter",
        {"partitions": 4, "settings": {"retention.ms": None, "retention.bytes": "1000000"}},
    )
    assert plan["warnings"] == ["messages with a key may go to other partitions than before"]
    topic(operator, "made", lambda row: row["partitions"] == 4)

    def changed(view):
        found = {each["name"]: each for each in view["settings"]}
        return (
            found["retention.ms"]["source"] != "topic"
            and found["retention.bytes"]["value"] == "1000000"
        )

    operator.eventually("topics/made", changed)
    plan = confirmed(operator, "topics/made/delete", {})
    assert "its messages cannot be restored" in plan["warnings"]
    operator.eventually("topics?search=made", lambda view: view["total"] == 0)


def test_replicas_are_moved_and_preferred_leaders_elected(operator):
    before = {each["id"]: each["replicas"] for each in operator.of("topics/visits")["partitions"]}
    wanted = [1, 2] if before[0] != [1, 2] else [2, 3]
    plan = confirmed(operator, "topics/visits/reassign", {"assignment": {"0": wanted}})
    assert plan["plan"][0].endswith(f"-> {wanted[0]},{wanted[1]}")
    operator.eventually(
        "topics/visits",
        lambda view: (
            view["partitions"][0]["replicas"] == wanted
            and sorted(view["partitions"][0]["isr"]) == sorted(wanted)
        ),
    )
    operator.eventually("reassignments", lambda view: view["moving"] == [])
    # Reversed, so that another broker than the leader is preferred.
    confirmed(operator, "topics/visits/reassign", {"assignment": {"0": wanted[::-1]}})
    operator.eventually(
        "topics/visits", lambda view: view["partitions"][0]["replicas"] == wanted[::-1]
    )
    operator.eventually("reassignments", lambda view: view["moving"] == [])
    leader = operator.of("topics/visits")["partitions"][0]["leader"]
    plan = confirmed(operator, "topics/visits/elect", {"partitions": [0]})
    if leader != wanted[1]:
        assert plan["plan"] == [f"visits-0: broker {wanted[1]} leads in place of {leader}"]
    operator.eventually("topics/visits", lambda view: view["partitions"][0]["leader"] == wanted[1])


def throttled(view):
    names = {each["name"] for each in view["settings"] if each["source"] == "topic"}
    return "follower.replication.throttled.replicas" in names


def broker_limits(view):
    return {
        each["value"]
        for rows in view["brokers"].values()
        for each in rows
        if each["name"] == "follower.replication.throttled.rate" and "broker" in each["source"]
    }


def test_reassignment_to_brokers_is_throttled(operator):
    plan = confirmed(
        operator, "topics/visits/reassign", {"brokers": [1, 3], "throttle": 10_000_000}
    )
    assert plan["plan"][-1] == "each broker copies 10,000,000 bytes a second at most"
    operator.eventually(
        "topics/visits",
        lambda view: all(sorted(each["replicas"]) == [1, 3] for each in view["partitions"]),
    )
    operator.eventually("reassignments", lambda view: view["moving"] == [])
    operator.eventually("topics/visits", throttled)
    assert operator.eventually("settings", lambda view: broker_limits(view) == {"10000000"})
    turned = operator.of("topics/visits")["partitions"][0]["replicas"][::-1]
    body = {"assignment": {"0": turned}, "throttle": 1, "dry_run": True}
    status, answer = operator.post("topics/visits/reassign", body)
    assert (status, answer["error"]) == (400, "no replica is copied: leave the limit out")
    confirmed(operator, "topics/visits/remove-throttle", {})
    operator.eventually("topics/visits", lambda view: not throttled(view))


def test_offsets_of_zookeeper_and_coordinator_groups_are_reset(cluster, operator):
    with open_producer(cluster) as producer:
        for number in range(30):
            producer.send(KeyedMessage("visits", b"v", key=b"%d" % number))
    with ZkSession(cluster.zookeeper) as session:
        for partition in range(3):
            commit_offset(session, "old", "visits", partition, 1)
        operator.eventually("groups?search=old", lambda view: view["total"] == 1)
        confirmed(operator, "groups/zookeeper/old/reset", {"topic": "visits", "to": "earliest"})
        assert read_offset(session, "old", "visits", 0)[0] == 0
        plan = confirmed(
            operator, "groups/zookeeper/old/reset", {"topic": "visits", "partition": 1, "to": "99"}
        )
        assert "lies outside the log" in plan["warnings"][0]
    with GroupConsumer(
        GroupConsumerConfig.from_properties(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "new",
                "auto.offset.reset": "earliest",
            }
        )
    ) as consumer:
        consumer.subscribe(["visits"])
        read_messages(consumer, 30)
        consumer.commit()
        operator.eventually("groups?search=new", lambda view: view["total"] == 1)
        path = "groups/coordinator/new/reset"
        status, answer = operator.post(path, {"to": "earliest", "dry_run": True})
        assert status == 409
        assert "has 1 member now" in answer["error"]
    confirmed(operator, path, {"to": "-2"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 6)
    confirmed(operator, path, {"to": "latest"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 0)
    confirmed(operator, path, {"to": "@2001-01-01", "topic": "visits"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 30)


def test_changes_need_an_operator_with_token_and_origin(operator, viewer):
    body = {"name": "never", "partitions": 1, "replication": 1, "confirm": "never"}
    status, answer = viewer.post("topics", body)
    assert (status, answer["code"]) == (403, "operators_only")
    assert viewer.of("overview")["brokers"]
    where = f"api/clusters/{operator.cluster}/topics"
    for headers, code in (
        ({"X-CSRF-Token": "wrong"}, "wrong_token"),
        ({"Origin": "https://evil.example"}, "wrong_origin"),
    ):
        status, _, data = operator.ask("POST", where, body, **headers)
        assert status == 403
        assert code.encode() in data
    anonymous = ConsoleClient(operator.base)
    anonymous._context = operator._context
    assert anonymous.ask("POST", where, body)[0] == 401
    assert operator.of("topics?search=never")["total"] == 0


NEW_TOPIC = {"name": "x", "partitions": 1, "replication": 1}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("topics", {**NEW_TOPIC, "name": "a b"}, 409),
        ("topics", {**NEW_TOPIC, "name": "visits"}, 409),
        ("topics", {**NEW_TOPIC, "partitions": 0}, 400),
        ("topics", {**NEW_TOPIC, "partitions": True}, 400),
        ("topics", {**NEW_TOPIC, "replication": 9}, 400),
        ("topics", {**NEW_TOPIC, "name": 7}, 400),
        ("topics", {**NEW_TOPIC, "settings": []}, 400),
        ("topics", {**NEW_TOPIC, "settings": {"a": []}}, 400),
        ("topics", {**NEW_TOPIC, "settings": {"retention.ms": "q"}}, 400),
        ("topics/none/delete", {}, 404),
        ("topics/visits/alter", {}, 400),
        ("topics/visits/alter", {"partitions": 1}, 400),
        ("topics/visits/elect", {"partitions": [77]}, 404),
        ("topics/visits/elect", {"partitions": "x"}, 400),
        ("topics/visits/reassign", {"brokers": []}, 400),
        ("topics/visits/reassign", {"brokers": [1, 1]}, 400),
        ("topics/visits/reassign", {"brokers": [77]}, 400),
        ("topics/visits/reassign", {"assignment": {"9": [1]}}, 404),
        ("topics/visits/reassign", {"assignment": []}, 400),
        ("topics/visits/reassign", {"brokers": [1, 2], "throttle": 0}, 400),
        ("topics/visits/remove-throttle", {}, 409),
        ("groups/coordinator/none/reset", {"to": "earliest"}, 404),
        ("groups/coordinator/none/reset", {"to": "x"}, 404),
        ("topics/visits/delete", {"dry_run": 1}, 400),
    ],
)
def test_invalid_actions_are_refused(operator, path, body, status):
    found, answer = operator.post(path, {"dry_run": True} | body)
    assert (found, bool(answer.get("error"))) == (status, True), answer


def test_log_line_names_user_and_action(operator):
    confirmed(operator, "topics", {"name": "logged", "partitions": 1, "replication": 1})
    # Read at the very end: the process writes to a pipe.
    operator.expected_in_log = "console action=create user='bob'"


def test_plain_http_is_refused_on_the_tls_port(console):
    plain = ConsoleClient(console.base.replace("https", "http"))
    with contextlib.suppress(OSError):
        status, _, _ = plain.ask("GET", "api/session")
        assert status >= 400
