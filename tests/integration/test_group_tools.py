"""`zkbroker groups` and `zkbroker offsets` against real brokers."""

import json

import pytest
from click.testing import CliRunner

from tests.support.consoles import open_producer, read_messages
from zkbroker.cli.main import cli
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import Consumer, GroupConsumer
from zkbroker.errors import ClientError, ConfigError, ProtocolError
from zkbroker.producer import KeyedMessage
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.registry.groups import StreamSubscription, claim, register_consumer
from zkbroker.zookeeper import ZkSession


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster() as started:
        started.create_topic("visits", partitions=2)
        with open_producer(started) as producer:
            producer.send([KeyedMessage("visits", b"x", partition=n % 2) for n in range(10)])
        yield started


@pytest.fixture
def run(cluster):
    def invoke(*arguments, status=0):
        ran = CliRunner(env={"ZKBROKER_ZOOKEEPER": cluster.zookeeper, "COLUMNS": "120"}).invoke(
            cli, arguments, catch_exceptions=False
        )
        assert ran.exit_code == status, ran.output
        return ran.output

    return invoke


@pytest.fixture
def session(cluster):
    with ZkSession(cluster.zookeeper) as started:
        yield started


def test_log_offsets_are_printed_like_get_offset_shell(run):
    assert run("offsets", "get", "-t", "visits") == "visits:0:5\nvisits:1:5\n"
    assert run("offsets", "get", "-t", "visits", "--time", "-2") == "visits:0:0\nvisits:1:0\n"
    assert run("offsets", "get", "-t", "visits", "--partitions", "1") == "visits:1:5\n"
    assert json.loads(run("offsets", "get", "-t", "visits", "--partitions", "1", "--json")) == [
        {"topic": "visits", "partition": 1, "offsets": [5]}
    ]
    with pytest.raises(ConfigError, match="no partition 7"):
        run("offsets", "get", "-t", "visits", "--partitions", "7")
    with pytest.raises(ConfigError, match="latest or earliest"):
        run("offsets", "get", "-t", "visits", "--time", "noon")


def test_group_is_described_like_offset_checker(run, session, cluster):
    commit_offset(session, "checked", "visits", 0, 2)
    register_consumer(session, "checked", "checked_me", StreamSubscription({"visits": 1}))
    claim(session, "checked", "checked_me", {("visits", 0): "checked_me-0"})
    commit_offset(session, "checked", "gone", 3, 9)
    assert run("groups", "describe", "checked").splitlines() == [
        (
            "Group           Topic                          Pid Offset          logSize"
            "         Lag             Owner"
        ),
        "No broker for partition gone - 3",
        (
            "checked         visits                         0   2               5"
            "               3               checked_me-0"
        ),
        (
            "checked         visits                         1   -1              5"
            "               unknown         none"
        ),
        (
            "group checked: lag 3 in 1 partition; not counted: 5 messages in 1 partition without "
            "a commit, 1 partition without a leader"
        ),
    ]
    checker = ("kafka-consumer-offset-checker", "--zookeeper", cluster.zookeeper)
    assert "not counted" not in run(*checker, "--group", "checked")
    described = json.loads(run("groups", "describe", "checked", "-t", "visits", "--json"))
    assert [(each["lag"], each["uncommitted"]) for each in described] == [(3, None), (None, 5)]
    with pytest.raises(ClientError, match="no group missing"):
        run("groups", "describe", "missing")
    with pytest.raises(ClientError, match="group checked neither reads nor has read typo"):
        run("groups", "describe", "checked", "-t", "typo")


def test_verify_uses_current_subscriptions(run, session, cluster):
    cluster.create_topic("verified-late")
    register_consumer(
        session, "filtered", "filtered_me", StreamSubscription({"visits|x": 1}, "white_list")
    )
    claim(session, "filtered", "filtered_me", {("visits", n): "filtered_me-0" for n in range(2)})
    # The node of a topic that was subscribed to earlier remains.
    session.ensure_path("/consumers/filtered/owners/verified-late")
    assert "owned by a live member" in run("groups", "verify", "filtered")
    register_consumer(
        session, "filtered", "filtered_you", StreamSubscription({"ver.*": 1}, "white_list")
    )
    shown = run("groups", "verify", "filtered", status=1)
    assert shown == "group filtered: no owner for partition verified-late-0\n"
    # An owner whose id only begins like a member's id is missing too.
    session.create("/consumers/filtered/owners/verified-late/0", b"filtered_you-too-0")
    assert "filtered_you-too-0 of verified-late-0 is not" in run(
        "groups", "verify", "filtered", status=1
    )


def test_live_group_is_verified_and_described(run, cluster):
    config = ConsumerConfig.from_properties(
        {
            "zookeeper.connect": cluster.zookeeper,
            "group.id": "live",
            "auto.offset.reset": "smallest",
        }
    )
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams({"visits": 1})["visits"]
        messages = iter(stream)
        for _ in range(10):
            next(messages)
        assert "owned by a live member" in run("groups", "verify", "live")
    described = json.loads(run("groups", "describe", "live", "--json"))
    assert sum(each["lag"] for each in described) <= 1


def test_offsets_are_exported_and_imported_in_genuine_format(run, session, tmp_path):
    commit_offset(session, "moved", "visits", 0, 3)
    commit_offset(session, "moved", "visits", 1, 4)
    lines = "/consumers/moved/offsets/visits/0:3\n/consumers/moved/offsets/visits/1:4\n"
    assert run("offsets", "export", "moved") == lines
    file = tmp_path / "offsets.txt"
    assert "exported 2 offsets" in run("offsets", "export", "moved", "-o", str(file))
    commit_offset(session, "moved", "visits", 0, 0)
    assert "imported 2 offsets" in run("offsets", "import", str(file))
    assert run("offsets", "export", "moved") == lines
    file.write_text(lines.replace(":4", ":1") + "nonsense\n")
    with pytest.raises(ConfigError, match="line 3 'nonsense'"):
        run("offsets", "import", str(file))
    assert run("offsets", "export", "moved") == lines


def test_offset_reset_is_refused_for_active_group(run, session):
    commit_offset(session, "reset", "visits", 0, 3)
    shown = run("offsets", "reset", "reset", "latest", "-t", "visits", "--dry-run")
    assert "/consumers/reset/offsets/visits/0:5" in shown
    assert run("offsets", "export", "reset") == "/consumers/reset/offsets/visits/0:3\n"
    run("offsets", "reset", "reset", "earliest", "-t", "visits")
    assert run("offsets", "export", "reset").splitlines()[0].endswith("/0:0")
    register_consumer(session, "reset", "reset_me", StreamSubscription({"visits": 1}))
    with pytest.raises(ClientError, match="stop reset_me first"):
        run("offsets", "reset", "reset", "latest", "-t", "visits")


def test_coordinator_group_offsets_are_reset_at_coordinator(run, cluster, session):
    bootstrap = cluster.bootstrap_servers

    def offsets():
        described = json.loads(run("groups", "describe", "modern-reset", "-b", bootstrap, "--json"))
        return [each["offset"] for each in described]

    config = GroupConsumerConfig(
        bootstrap_servers=(bootstrap,), group_id="modern-reset", auto_offset_reset="earliest"
    )
    reset = ("offsets", "reset", "modern-reset", "earliest", "-t", "visits")
    with GroupConsumer(config) as member:
        member.subscribe(["visits"])
        read_messages(member, 10)
        member.commit()
        with pytest.raises(ClientError, match=r"has 1 member now .* stop .* first"):
            run(*reset)
    assert offsets() == [5, 5]
    shown = run(*reset)
    assert shown == "modern-reset:visits:0:0\nmodern-reset:visits:1:0\n"
    assert offsets() == [0, 0]
    assert not session.exists("/consumers/modern-reset")
    # A group with offsets in both places is reset in both.
    commit_offset(session, "modern-reset", "visits", 0, 3)
    run("offsets", "reset", "modern-reset", "latest", "-t", "visits")
    assert offsets() == [5, 5]
    assert "offsets/visits/0:5" in run("offsets", "export", "modern-reset")


def test_new_group_is_created_in_selected_storage(run, cluster, session):
    new = ("offsets", "reset", "brand-new", "latest", "-t", "visits")
    shown = CliRunner().invoke(cli, [*new, "-b", cluster.bootstrap_servers]).output
    assert "group brand-new is new: its offsets are kept by coordinator" in shown
    assert "brand-new:visits:0:5" in shown
    assert not session.exists("/consumers/brand-new")
    assert "/consumers/newer/offsets/visits/0:0" in run(
        "offsets", "reset", "newer", "earliest", "-t", "visits"
    )
    assert session.exists("/consumers/newer/offsets/visits/0")


def test_groups_of_both_kinds_are_listed_described_and_deleted(run, cluster, session):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "modern",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["visits"])
    assert consumer.poll(30) is not None
    consumer.commit(offsets=[confluent_kafka.TopicPartition("visits", 0, 4)], asynchronous=False)
    commit_offset(session, "classic", "visits", 0, 1)
    listed = {each["group"]: each["kept"] for each in json.loads(run("groups", "list", "--json"))}
    assert listed["modern"] == "coordinator"
    assert listed["classic"] == "zookeeper"
    described = {
        each["partition"]: each
        for each in json.loads(run("groups", "describe", "modern", "--json"))
    }
    assert (described[0]["offset"], described[0]["lag"]) == (4, 1)
    assert described[1]["owner"].startswith("rdkafka-")
    assert (described[1]["lag"], described[1]["uncommitted"]) == (None, 5)
    summary = run("groups", "describe", "modern").splitlines()[-1]
    assert summary.startswith("group modern: lag 1 in 1 partition; not counted: 5 messages in 1 ")
    with pytest.raises(ProtocolError, match="NON_EMPTY_GROUP"):
        run("groups", "delete", "modern", "-b", cluster.bootstrap_servers)
    # A group with offsets in both places is deleted from both or from none.
    commit_offset(session, "modern", "visits", 1, 2)
    with pytest.raises(ProtocolError, match="NON_EMPTY_GROUP"):
        run("groups", "delete", "modern")
    assert run("offsets", "export", "modern") == "/consumers/modern/offsets/visits/1:2\n"
    consumer.close()
    assert "deleted group modern" in run("groups", "delete", "modern")
    session.ensure_path("/consumers/classic/ids")
    session.create("/consumers/classic/owners/visits/0", b"classic_gone-0", parents=True)
    assert run("groups", "verify", "classic", status=1).endswith(
        "group classic: it has no members\n"
    )
    assert "deleted group classic" in run("groups", "delete", "classic")
    assert not session.exists("/consumers/classic")
    assert "classic" not in run("groups", "list")
    register_consumer(session, "classic", "classic_me", StreamSubscription({"visits": 1}))
    commit_offset(session, "classic", "visits", 0, 1)
    with pytest.raises(ClientError, match="group classic has members: stop classic_me first"):
        run("groups", "delete", "classic")
    assert run("offsets", "export", "classic") == "/consumers/classic/offsets/visits/0:1\n"
    with pytest.raises(ClientError, match="no group modern"):
        run("groups", "delete", "modern")
