"""`zkbroker reassign`, `drain` and `elect`: their znodes, in a ZooKeeper without brokers."""

import json

import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli
from zkbroker.errors import ClientError, ConfigError, ProtocolError
from zkbroker.registry.brokers import BrokerInfo, prepare_tree
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import create_topic, set_topic_config

REASSIGN = "/admin/reassign_partitions"


@pytest.fixture
def run(chroot, zk, tmp_path, monkeypatch):
    prepare_tree(zk)
    for broker in (0, 1, 2):
        zk.create(f"/brokers/ids/{broker}", BrokerInfo(broker, "h", 9092 + broker).to_json())
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, status=0):
        ran = CliRunner(env={"ZKBROKER_ZOOKEEPER": chroot}).invoke(
            cli, list(map(str, arguments)), catch_exceptions=False
        )
        assert ran.exit_code == status, ran.output
        return ran.stdout

    return invoke


def write(path, text):
    path.write_text(text)
    return path


def finish(zk, target):
    """Finish a reassignment, as the controller does when all replicas are in sync."""
    for topic in {topic for topic, _ in target}:
        replicas = {str(number): list(each) for (_, number), each in target.items()}
        zk.set(
            f"/brokers/topics/{topic}",
            json.dumps({"version": 1, "partitions": replicas}).encode(),
        )
    zk.delete(REASSIGN)


def test_throttled_reassignment_writes_genuine_znodes(run, zk, tmp_path):
    create_topic(zk, "t2", {0: [1, 2], 1: [2, 0], 2: [2, 0]}, {"retention.ms": "1000"})
    text = '{"version":1,"partitions":[{"topic":"t2","partition":2,"replicas":[1,2]}]}'
    plan = write(tmp_path / "r2.json", text)
    shown = run("reassign", "execute", plan, "--throttle", 100000)
    assert (
        '{"version":1,"partitions":[{"topic":"t2","partition":0,"replicas":[1,2]},'
        '{"topic":"t2","partition":1,"replicas":[2,0]},{"topic":"t2","partition":2,"replicas":[2,0]}]}'
    ) in shown
    assert zk.get(REASSIGN)[0].decode() == text
    assert json.loads(zk.get("/config/topics/t2")[0])["config"] == {
        "retention.ms": "1000",
        "leader.replication.throttled.replicas": "2:2,2:0",
        "follower.replication.throttled.replicas": "2:1",
    }
    for broker in (0, 1, 2):
        assert json.loads(zk.get(f"/config/brokers/{broker}")[0])["config"] == {
            "leader.replication.throttled.rate": "100000",
            "follower.replication.throttled.rate": "100000",
        }
    notes = [zk.get(f"/config/changes/{each}")[0] for each in zk.children("/config/changes")]
    assert b'{"version":2,"entity_path":"brokers/1"}' in notes
    assert notes[0] == b'{"version":2,"entity_path":"topics/t2"}'
    assert "t2-2 is still in progress" in run("reassign", "verify", plan, status=1)
    assert zk.get("/config/brokers/0")[0] != b'{"version":1,"config":{}}'
    with pytest.raises(ClientError, match="a reassignment is under way"):
        run("reassign", "execute", plan, "--rollback", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    finish(zk, {("t2", 0): [1, 2], ("t2", 1): [2, 0], ("t2", 2): [1, 2]})
    assert run("reassign", "verify", plan).splitlines() == [
        "Status of partition reassignment: ",
        "Reassignment of partition t2-2 completed successfully",
        "Throttle was removed.",
    ]
    assert zk.get("/config/brokers/0")[0] == b'{"version":1,"config":{}}'
    assert json.loads(zk.get("/config/topics/t2")[0])["config"] == {"retention.ms": "1000"}
    assert "Throttle" not in run("reassign", "verify", plan)


def test_running_reassignment_is_cancelled(run, zk, tmp_path):
    create_topic(zk, "t", {0: [0, 1], 1: [1, 2]})
    plan = write(
        tmp_path / "plan.json",
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]},'
        '{"topic":"t","partition":1,"replicas":[0,1]}]}',
    )
    run("reassign", "execute", plan)
    # Partition 1 is done before it is turned back.
    zk.set(REASSIGN, b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}')
    shown = run("reassign", "cancel", f"{plan}.rollback")
    assert shown.startswith("Reassignment of partition t-0 is being reverted\n1 of 2 ")
    assert zk.get(REASSIGN)[0] == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[0,1]}]}'
    )
    zk.delete(REASSIGN)
    with pytest.raises(ClientError, match="nothing to cancel"):
        run("reassign", "cancel", f"{plan}.rollback")
    with pytest.raises(ConfigError, match="rollback exists"):
        run("reassign", "execute", plan)
    assert "t-0 failed" in run("reassign", "verify", plan, status=1)


@pytest.mark.parametrize(
    ("partition", "replicas", "problem"),
    [(0, [7], "broker 7 is not running; running are 0, 1, 2"), (9, [1], "no partition t-9")],
)
def test_invalid_reassignment_is_refused_and_writes_nothing(
    run, zk, tmp_path, partition, replicas, problem
):
    create_topic(zk, "t", {0: [0]})
    each = {"topic": "t", "partition": partition, "replicas": replicas}
    plan = write(tmp_path / "plan.json", json.dumps({"version": 1, "partitions": [each]}))
    with pytest.raises(ConfigError, match=problem):
        run("reassign", "execute", plan, "--throttle", 1)
    assert zk.exists(REASSIGN) is None
    assert zk.children("/config/brokers") == []
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_plan_is_printed_and_changes_nothing(run, zk, chroot, tmp_path):
    create_topic(zk, "t", {number: [0] for number in range(6)})
    plan = json.loads(run("reassign", "plan"))["partitions"]
    assert len(plan) == 4
    assert sorted(each["replicas"] for each in plan) == [[1], [1], [2], [2]]
    assert json.loads(run("reassign", "plan", "--remove", 0, "--brokers", "0,1"))["partitions"] == [
        {"topic": "t", "partition": number, "replicas": [1]} for number in range(6)
    ]
    assert zk.exists(REASSIGN) is None
    with pytest.raises(ConfigError, match="broker 5 is not running"):
        run("reassign", "plan", "--brokers", "5")
    topics = write(tmp_path / "topics.json", '{"version":1,"topics":[{"topic":"t"}]}')
    shown = run(
        "kafka-reassign-partitions.sh", "--zookeeper", chroot,
        "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,2",
    ).splitlines()  # fmt: skip
    assert shown[0] == "Current partition replica assignment"
    assert shown[3] == "Proposed partition reassignment configuration"
    assert {each["replicas"][0] for each in json.loads(shown[4])["partitions"]} == {1, 2}


def test_partial_racks_are_refused_unless_ignored(run, zk):
    create_topic(zk, "t", {0: [0, 1]})
    zk.set("/brokers/ids/0", BrokerInfo(0, "h", 9092, rack="a").to_json())
    for command in (["reassign", "plan", "--remove", 1], ["drain", 1, "--dry-run"]):
        with pytest.raises(ProtocolError, match="Not all brokers have rack information"):
            run(*command)
        planned = json.loads(run(*command, "--disable-rack-aware"))["partitions"]
        assert planned == [{"topic": "t", "partition": 0, "replicas": [0, 2]}]


def test_genuine_tool_names_are_supported(run, zk, chroot, tmp_path):
    create_topic(zk, "t", {0: [0, 1], 1: [1, 2]})
    plan = write(
        tmp_path / "plan.json",
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}',
    )
    tool = ("kafka-reassign-partitions", "--zookeeper", chroot)
    tool += ("--reassignment-json-file", plan)
    shown = run(*tool, "--execute")
    assert "Successfully started reassignment of partitions t-0." in shown
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert "t-0 is still in progress" in run(*tool, "--verify")
    run("kafka-preferred-replica-election", "--zookeeper", chroot)
    assert zk.get("/admin/preferred_replica_election")[0] == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1}]}'
    )


def test_broker_is_drained(run, zk, tmp_path):
    create_topic(zk, "t", {0: [0, 1], 1: [1, 2], 2: [2, 0], 3: [1, 0]})
    dry = json.loads(run("drain", 1, "--dry-run"))
    assert zk.exists(REASSIGN) is None
    output = run("drain", 1, "--throttle", 1000)
    assert "Successfully started reassignment of t-0, t-1, t-3" in output
    assert "Current partition replica assignment" not in output
    asked = json.loads(zk.get(REASSIGN)[0])
    assert asked == dry == json.loads((tmp_path / "drain-1.json").read_text())
    assert {each["partition"] for each in asked["partitions"]} == {0, 1, 3}
    assert all(sorted(each["replicas"]) == [0, 2] for each in asked["partitions"])
    finish(
        zk, {("t", 2): [2, 0]} | {("t", e["partition"]): e["replicas"] for e in asked["partitions"]}
    )
    assert "Throttle was removed" in run("reassign", "verify", tmp_path / "drain-1.json")
    assert run("drain", 1) == "broker 1 holds no replica\n"
    with pytest.raises(ClientError, match="there is no broker 9; registered are 0, 1, 2"):
        run("drain", 9)


def test_broker_is_not_drained_without_its_plan_on_disk(run, zk, tmp_path):
    create_topic(zk, "t", {0: [0, 1]})
    with pytest.raises(FileNotFoundError, match="gone"):
        run("drain", 1, "--plan", tmp_path / "gone" / "plan.json")
    assert zk.exists(REASSIGN) is None
    run("drain", 1)
    (tmp_path / "drain-1.json.rollback").unlink()
    with pytest.raises(ClientError, match="under way"):
        run("drain", 0, "--plan", tmp_path / "plan.json")
    assert {path.name for path in tmp_path.iterdir()} == {"drain-1.json"}


def test_election_writes_its_znode(run, zk):
    create_topic(zk, "t", {0: [0], 1: [1]})
    with pytest.raises(ConfigError, match="no partition t-7"):
        run("elect", "t-7")
    with pytest.raises(ConfigError, match="give TOPIC-NUMBER"):
        run("elect", "t")
    assert run("elect", "t-1") == "the controller elects the leaders of t-1\n"
    assert zk.get("/admin/preferred_replica_election")[0] == (
        b'{"version":1,"partitions":[{"topic":"t","partition":1}]}'
    )
    with pytest.raises(ClientError, match="election is under way"):
        run("elect")


def test_unhealthy_partitions_are_listed(run, zk, chroot):
    create_topic(zk, "t", {0: [0, 1], 1: [1, 2], 2: [2, 0], 3: [1, 0]})
    set_topic_config(zk, "t", {"min.insync.replicas": "2"})
    states = {0: (0, [0, 1]), 1: (1, [1]), 2: (7, [2, 0])}
    for number, (leader, isr) in states.items():
        state = PartitionState(leader, 0, tuple(isr)).to_json()
        zk.create(f"/brokers/topics/t/partitions/{number}/state", state, parents=True)

    def listed(*options):
        shown = run("topics", "describe", *options).splitlines()
        return [int(line.split("\t")[2].removeprefix("Partition: ")) for line in shown]

    assert listed("--under-replicated-partitions") == [1, 3]
    assert listed("--unavailable-partitions") == [2, 3]
    assert listed("--under-min-isr-partitions") == [1, 3]
    genuine = run(
        "kafka-topics", "--zookeeper", chroot, "--describe", "--under-replicated-partitions"
    )
    assert genuine.startswith("\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1\n")
    assert run("topics", "describe", "--under-replicated-partitions", "--json").count("isr") == 2


def test_topic_grows_with_given_assignment(run, zk):
    create_topic(zk, "t", {0: [0]})
    run("topics", "alter", "t", "--partitions", 3, "--replica-assignment", "0,2,1")
    assert json.loads(zk.get("/brokers/topics/t")[0])["partitions"] == {
        "0": [0], "1": [2], "2": [1]
    }  # fmt: skip
    assert "of 1 partitions, not of 5" in CliRunner().invoke(
        cli, ["topics", "alter", "t", "--partitions", "5", "--replica-assignment", "0"]
    ).output  # fmt: skip


def test_many_moved_partitions_are_summarized_by_topic(run, zk):
    create_topic(zk, "t", {number: [1, number % 2 * 2] for number in range(60)})
    assert run("elect") == "the controller elects the leaders of 60 partitions of 1 topic: t (60)\n"
    output = run("drain", 1)
    assert "reassignment of 60 partitions of 1 topic: t (60)" in output
    assert len(output) < 400


def test_impossible_drain_is_refused(run, zk):
    create_topic(zk, "wide", {0: [0, 1, 2]})
    create_topic(zk, "t", {0: [0, 1]})
    with pytest.raises(ConfigError, match=r"topic wide has 3 replicas .* 2 to use: 0, 2"):
        run("drain", 1)
