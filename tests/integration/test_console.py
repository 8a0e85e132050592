"""`zkbroker console` on a real cluster, and while brokers or ZooKeeper are down."""

import pytest

from tests.support.clusters import TestCluster
from tests.support.consoles import open_producer, read_messages, running_console
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import KeyedMessage
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.zookeeper.session import ZkSession


@pytest.fixture(scope="module")
def cluster():
    with TestCluster(2, replication=2) as cluster:
        cluster.create_topic("events", partitions=4)
        cluster.create_topic("other")
        yield cluster


@pytest.fixture(scope="module")
def console(cluster):
    with running_console("-z", cluster.zookeeper, "--interval", "0.5") as client:
        yield client


def produce(cluster, topic, values):
    with open_producer(cluster) as producer:
        for value in values:
            producer.send(KeyedMessage(topic, value.encode(), key=value.encode()))


def test_overview_lists_brokers_and_counts(cluster, console):
    found = console.eventually(
        "overview",
        lambda view: (
            view["topics"] >= 2
            and view["controller"] is not None
            and view["below_min_isr"] is not None
            and len(view["brokers"]) == 2
            and all(each["directories"] for each in view["brokers"])
        ),
    )
    assert [each["id"] for each in found["brokers"]] == [1, 2]
    assert all(each["alive"] for each in found["brokers"])
    assert found["controller"] in (1, 2)
    assert found["zookeeper"]["session"] == "connected"
    assert found["zookeeper"]["servers"] == [cluster.zookeeper]
    assert found["cluster_id"]
    assert found["partitions"] >= 5
    assert found["below_min_isr"] == 0
    assert all(each["listeners"][0]["protocol"] == "PLAINTEXT" for each in found["brokers"])
    assert all(each["directories"][0]["error"] is None for each in found["brokers"])


def test_produced_messages_appear_in_topics_and_series(cluster, console):
    produce(cluster, "events", [f"value {number}" for number in range(100)])
    (row,) = console.eventually(
        "topics?search=event", lambda view: view["topics"] and view["topics"][0]["messages"] == 100
    )["topics"]
    assert (row["partitions"], row["replication"], row["internal"]) == (4, 2, False)
    assert row["settings_changed"] == 0
    found = console.eventually(
        "series?names=cluster.messages_in_s,topic.events.messages_in_s",
        lambda view: any(view["series"].get("topic.events.messages_in_s", ())),
    )
    assert len(found["times_ms"]) == len(found["series"]["cluster.messages_in_s"])
    page = console.eventually(
        "topics/events", lambda page: {each["state"] for each in page["partitions"]} == {"ok"}
    )
    assert sum(each["end"] - each["start"] for each in page["partitions"]) == 100
    assert "cleanup.policy" in {each["name"] for each in page["settings"]}
    console.eventually("topics/events", lambda view: (view["bytes"] or 0) > 1000)


def test_coordinator_group_shows_members_and_lag(cluster, console):
    config = GroupConsumerConfig.from_properties(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "client.id": "the reader",
            "auto.offset.reset": "earliest",
        }
    )
    produce(cluster, "other", ["1", "2", "3"])
    with GroupConsumer(config) as consumer:
        consumer.subscribe(["other"])
        read_messages(consumer, 3)
        consumer.commit()
        console.eventually(
            "groups?search=readers", lambda view: view["groups"] and view["groups"][0]["lag"] == 0
        )
        found = console.of("groups/coordinator/readers")
        (member,) = found["members"]
        assert (found["state"], member["client_id"]) == ("Stable", "the reader")
        assert member["owns"] == [{"topic": "other", "partition": 0}]
        (offset,) = found["offsets"]
        assert (offset["offset"], offset["end"], offset["lag"]) == (3, 3, 0)
        assert offset["owner"] == member["id"]
    assert {"kind": "coordinator", "name": "readers", "lag": 0} in console.of("topics/other")[
        "groups"
    ]
    produce(cluster, "other", ["4"])
    console.eventually(
        "groups?search=readers", lambda view: view["groups"] and view["groups"][0]["lag"] == 1
    )


def test_zookeeper_group_shows_offsets_and_lag(cluster, console):
    produce(cluster, "other", ["5"])
    with ZkSession(cluster.zookeeper) as session:
        commit_offset(session, "old readers", "other", 0, 1)
    page = "groups/zookeeper/old%20readers"
    found = console.eventually(page, lambda view: view["lag"] is not None)
    assert (found["offsets"][0]["offset"], found["members"]) == (1, [])
    assert found["lag"] == found["offsets"][0]["end"] - 1
    # The end of the log may be read anew between two requests.
    (row,) = console.eventually(
        "groups?search=old",
        lambda view: view["groups"] and view["groups"][0]["lag"] == console.of(page)["lag"],
    )["groups"]
    assert (row["kind"], row["topics"], row["state"]) == ("zookeeper", ["other"], "Empty")


def until_overview(events, good):
    """Wait until an overview of a stream is good."""
    assert any(name == "overview" and good(view) for name, view in events)


def test_stream_reports_a_broker_that_fails_and_returns(cluster, console):
    with console.events("events?what=overview,topics") as events:
        assert next(events)[0] == "overview"
        broker = cluster.broker(2)
        broker.kill()
        # Its registration and its replicas are found missing one after the other.
        until_overview(
            events,
            lambda view: (
                view["under_replicated"]
                and [each["alive"] for each in view["brokers"]] == [True, False]
                and any("broker 2" in each["text"] for each in view["problems"])
            ),
        )
        broker.start()
        until_overview(
            events,
            lambda view: (
                all(each["alive"] for each in view["brokers"]) and not view["under_replicated"]
            ),
        )
    assert console.of("overview")["offline"] == 0


def test_brokers_are_read_while_zookeeper_is_down(cluster, console):
    zookeeper = cluster.embedded_zookeeper
    before = console.eventually(
        "topics/other", lambda view: view["partitions"][0]["end"] is not None
    )["partitions"][0]["end"]
    zookeeper.kill()
    try:
        found = console.eventually(
            "overview",
            lambda view: any("ZooKeeper does not answer" in p["text"] for p in view["problems"]),
        )
        assert found["zookeeper"]["session"] != "connected"
        assert [each["alive"] for each in found["brokers"]] == [True, True]
        produce(cluster, "other", ["while it is down"])
        console.eventually("topics/other", lambda view: view["partitions"][0]["end"] == before + 1)
    finally:
        zookeeper.restart()
    console.eventually(
        "overview",
        lambda view: (
            view["zookeeper"]["session"] == "connected"
            and not view["problems"]
            and len(view["brokers"]) == 2
        ),
    )


def test_console_without_zookeeper_has_no_topic_settings(cluster):
    with running_console("-b", cluster.bootstrap_servers, "--interval", "0.5") as console:
        found = console.eventually(
            "overview", lambda view: view["topics"] >= 2 and view["controller"] is not None
        )
        assert found["zookeeper"] is None
        assert found["controller"] in (1, 2)
        console.eventually(
            "topics", lambda view: all(each["messages"] is not None for each in view["topics"])
        )
        assert all(each["settings_changed"] is None for each in console.of("topics")["topics"])


def test_unreachable_cluster_is_shown_as_a_problem():
    with running_console("-b", "127.0.0.1:1", "--interval", "0.5") as console:
        found = console.eventually("overview", lambda view: view["problems"])
        assert found["problems"][0]["severity"] == "error"
        assert "cannot be seen now" in found["problems"][0]["text"]
        assert found["brokers"] == []


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 1, "no cluster is named"),
        (["-b", "h:1", "--host", "0.0.0.0"], 1, "--users FILE"),
        (["-b", "h:1", "--operator", "ann"], 1, "--operator names a user of --users"),
        (["-b", "h:1", "--cluster", "x"], 2, "NAME=FILE"),
        (["--lake", "/x", "--cluster", "a=/none"], 1, "--lake apply to the cluster of -z or -b"),
        (["-b", "h:1", "-X", "nonsense=1"], 1, "nonsense is not a setting"),
    ],
)
def test_invalid_options_are_refused(tool, arguments, status, message):
    assert message in tool("console", "--port", "0", *arguments, status=status)
