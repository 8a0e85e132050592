"""What operators change by the console of a real cluster, over TLS and with logins."""

import contextlib

import pytest

from tests.support.certificates import Authority
from tests.support.consoles import ConsoleClient, running_console
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.group_offsets import commit_offset, read_offset
from zkbroker.security.password_hashes import PasswordHash
from zkbroker.zookeeper.session import ZkSession


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(3, replication=2) as cluster:
        cluster.create_topic("visits", partitions=3)
        yield cluster


@pytest.fixture(scope="module")
def served(cluster, tmp_path_factory):
    directory = tmp_path_factory.mktemp("console")
    authority = Authority()
    users = directory / "users"
    users.write_text(f"ann:{PasswordHash.of('look')}\nbob:{PasswordHash.of('change')}\n")
    with running_console(
        "-z",
        cluster.zookeeper,
        "--interval",
        "0.5",
        "--users",
        str(users),
        "--operator",
        "bob",
        "--tls-key",
        authority.issue("localhost").pem(directory),
        cafile=authority.trusted(directory),
    ) as client:
        yield client


@pytest.fixture(scope="module")
def operator(served):
    session = served.log_in("bob", "change")
    assert session["role"] == "operator"
    served.eventually("overview", lambda view: view["topics"] >= 1 and view["controller"])
    return served


@pytest.fixture
def viewer(operator):
    client = ConsoleClient(operator.base)
    client._context = operator._context
    assert client.log_in("ann", "look")["role"] == "viewer"
    return client


def done(client, path, body):
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


def test_a_topic_is_created_altered_and_deleted(operator):
    plan = done(
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
    plan = done(
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
    plan = done(operator, "topics/made/delete", {})
    assert "its messages cannot be restored" in plan["warnings"]
    operator.eventually("topics?search=made", lambda view: view["total"] == 0)


def test_replicas_are_moved_and_preferred_ones_elected(operator):
    before = {each["id"]: each["replicas"] for each in operator.of("topics/visits")["partitions"]}
    wanted = [1, 2] if before[0] != [1, 2] else [2, 3]
    plan = done(operator, "topics/visits/reassign", {"assignment": {"0": wanted}})
    assert plan["plan"][0].endswith(f"-> {wanted[0]},{wanted[1]}")
    operator.eventually(
        "topics/visits",
        lambda view: (
            view["partitions"][0]["replicas"] == wanted
            and sorted(view["partitions"][0]["isr"]) == sorted(wanted)
        ),
    )
    operator.eventually("reassignments", lambda view: view["moving"] == [])
    # The other way round, so that another broker is preferred to the one that leads.
    done(operator, "topics/visits/reassign", {"assignment": {"0": wanted[::-1]}})
    operator.eventually(
        "topics/visits", lambda view: view["partitions"][0]["replicas"] == wanted[::-1]
    )
    operator.eventually("reassignments", lambda view: view["moving"] == [])
    leader = operator.of("topics/visits")["partitions"][0]["leader"]
    plan = done(operator, "topics/visits/elect", {"partitions": [0]})
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


def test_a_topic_is_spread_over_named_brokers(operator):
    plan = done(operator, "topics/visits/reassign", {"brokers": [1, 3], "throttle": 10_000_000})
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
    status, said = operator.post("topics/visits/reassign", body)
    assert (status, said["error"]) == (400, "no replica is copied: leave the limit out")
    done(operator, "topics/visits/remove-throttle", {})
    operator.eventually("topics/visits", lambda view: not throttled(view))


def test_offsets_of_both_kinds_of_groups(cluster, operator):
    config = ProducerConfig.from_properties(
        {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "-1"}
    )
    with Producer(config) as producer:
        for number in range(30):
            producer.send(KeyedMessage("visits", b"v", key=b"%d" % number))
    with ZkSession(cluster.zookeeper) as session:
        for partition in range(3):
            commit_offset(session, "old", "visits", partition, 1)
        operator.eventually("groups?search=old", lambda view: view["total"] == 1)
        done(operator, "groups/zookeeper/old/reset", {"topic": "visits", "to": "earliest"})
        assert read_offset(session, "old", "visits", 0)[0] == 0
        plan = done(
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
        left = 30
        while left:
            left -= len(consumer.poll(1.0, left))
        consumer.commit()
        operator.eventually("groups?search=new", lambda view: view["total"] == 1)
        path = "groups/coordinator/new/reset"
        status, said = operator.post(path, {"to": "earliest", "dry_run": True})
        assert status == 409
        assert "has 1 member now" in said["error"]
    done(operator, path, {"to": "-2"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 6)
    done(operator, path, {"to": "latest"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 0)
    done(operator, path, {"to": "@2001-01-01", "topic": "visits"})
    operator.eventually("groups?search=new", lambda view: view["groups"][0]["lag"] == 30)


def test_viewers_and_strangers_change_nothing(operator, viewer):
    body = {"name": "never", "partitions": 1, "replication": 1, "confirm": "never"}
    status, said = viewer.post("topics", body)
    assert (status, said["code"]) == (403, "operators_only")
    assert viewer.of("overview")["brokers"]
    where = f"api/clusters/{operator.cluster}/topics"
    for headers, code in (
        ({"X-CSRF-Token": "wrong"}, "wrong_token"),
        ({"Origin": "https://evil.example"}, "wrong_origin"),
    ):
        status, _, data = operator.ask("POST", where, body, **headers)
        assert status == 403
        assert code.encode() in data
    stranger = ConsoleClient(operator.base)
    stranger._context = operator._context
    assert stranger.ask("POST", where, body)[0] == 401
    assert operator.of("topics?search=never")["total"] == 0


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("topics", {"name": "a b", "partitions": 1, "replication": 1}, 409),
        ("topics", {"name": "visits", "partitions": 1, "replication": 1}, 409),
        ("topics", {"name": "x", "partitions": 0, "replication": 1}, 400),
        ("topics", {"name": "x", "partitions": True, "replication": 1}, 400),
        ("topics", {"name": "x", "partitions": 1, "replication": 9}, 400),
        ("topics", {"name": 7, "partitions": 1, "replication": 1}, 400),
        ("topics", {"name": "x", "partitions": 1, "replication": 1, "settings": []}, 400),
        ("topics", {"name": "x", "partitions": 1, "replication": 1, "settings": {"a": []}}, 400),
        (
            "topics",
            {"name": "x", "partitions": 1, "replication": 1, "settings": {"retention.ms": "q"}},
            400,
        ),
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
def test_what_cannot_be_done_is_refused_in_a_sentence(operator, path, body, status):
    found, said = operator.post(path, {"dry_run": True} | body)
    assert (found, bool(said.get("error"))) == (status, True), said


def test_the_log_names_user_and_action(served, operator):
    done(operator, "topics", {"name": "logged", "partitions": 1, "replication": 1})
    # Read at the very end: the process writes to a pipe.
    served.expected_in_log = "console action=create user='bob'"


def test_the_page_of_others_cannot_be_reached_by_plain_http(served):
    plain = ConsoleClient(served.base.replace("https", "http"))
    with contextlib.suppress(OSError):
        status, _, _ = plain.ask("GET", "api/session")
        assert status >= 400
