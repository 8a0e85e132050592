"""The console over a genuine 0.8.2.2 broker: values that it does not provide are null."""

import pytest

from tests.support import java_clients
from tests.support.consoles import running_console
from tests.support.genuine_broker import GenuineBroker
from tests.support.process import wait_until
from zkbroker.admin.topics import create_topic
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper
from zkbroker.zookeeper.session import ZkSession

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)


@pytest.fixture(scope="module")
def console(tmp_path_factory):
    directory = tmp_path_factory.mktemp("genuine")
    with EmbeddedZooKeeper(directory / "zookeeper", port=0) as zookeeper:
        broker = GenuineBroker(
            directory, zookeeper.connect_string, directory / "logs", {"broker.id": "7"}
        )
        broker.start()
        try:
            with ZkSession(zookeeper.connect_string) as session:
                assert wait_until(lambda: list_brokers(session), interval_s=0.1)
                create_topic(session, "old", partitions=2, config={"retention.ms": "100000000"})
                commit_offset(session, "readers", "old", 0, 1)
            config = ProducerConfig.from_properties(
                {"zookeeper.connect": zookeeper.connect_string, "request.required.acks": "-1"}
            )
            with Producer(config) as producer:
                for number in range(20):
                    producer.send(KeyedMessage("old", b"v%d" % number, partition=number % 2))
            with running_console(
                "-z", zookeeper.connect_string, "--interval", "0.5", "--allow-changes"
            ) as client:
                yield client
        finally:
            broker.stop()


def test_brokers_topics_and_offsets_are_shown(console):
    found = console.eventually(
        "topics?search=old",
        lambda view: view["topics"] and view["topics"][0]["messages"] == 20,
    )["topics"][0]
    assert (found["partitions"], found["settings_changed"], found["bytes"]) == (2, 1, None)
    overview = console.of("overview")
    (broker,) = overview["brokers"]
    assert (broker["id"], broker["alive"], broker["disk_bytes"]) == (7, True, None)
    assert overview["controller"] == 7
    assert overview["below_min_isr"] is None
    assert [each for each in overview["problems"] if each["severity"] == "error"] == []


def test_messages_of_the_oldest_format(console):
    found = console.eventually(
        "messages?topic=old&from=earliest", lambda view: len(view["messages"]) == 20
    )["messages"]
    assert {each["format"] for each in found} == {0}
    assert {each["time_ms"] for each in found} == {None}
    assert console.of("messages?topic=old&partition=1&from=-3")["ended"] is True


def test_groups_of_zookeeper_are_shown(console):
    found = console.eventually(
        "groups", lambda view: view["groups"] and view["groups"][0]["lag"] is not None
    )
    (group,) = found["groups"]
    assert (group["kind"], group["name"], group["lag"]) == ("zookeeper", "readers", 9)
    assert console.of("settings")["brokers"] == {"7": None}
    topic = console.of("topics/old")
    assert [each["name"] for each in topic["settings"]] == ["retention.ms"]
    assert console.of("clients")["missing"] == [7]


def test_topics_are_changed_in_zookeeper(console):
    body = {"name": "made", "partitions": 1, "replication": 1, "confirm": "made"}
    status, answer = console.post("topics", body)
    assert status == 200, answer
    console.eventually("topics?search=made", lambda view: view["total"] == 1)
    status, answer = console.post(
        "topics/made/alter", {"settings": {"retention.ms": "7"}, "confirm": "made"}
    )
    assert status == 200, answer
    console.eventually(
        "topics/made", lambda view: [each["value"] for each in view["settings"]] == ["7"]
    )
