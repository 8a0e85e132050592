"""Offsets of groups reset in every form of the genuine tool, and its tables of groups."""

import confluent_kafka
import pytest


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster() as started:
        started.create_topic("read", partitions=2)
        producer = confluent_kafka.Producer({"bootstrap.servers": started.bootstrap_servers})
        for number in range(20):
            producer.produce(
                "read", b"%d" % number, partition=number % 2, timestamp=1000 * (number + 1)
            )
        assert producer.flush(30) == 0
        yield started


def committed(cluster, group):
    asked = [confluent_kafka.TopicPartition("read", number) for number in (0, 1)]
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    )
    try:
        return [each.offset for each in consumer.committed(asked, timeout=300)]
    finally:
        consumer.close()


def test_every_target_of_offset_reset(cluster, tool, tmp_path):
    reset = ["offsets", "reset", "counters"]
    find = ["-b", cluster.bootstrap_servers]

    def to(target, *more):
        tool(*reset, target, *find, *(more or ["-t", "read"]))
        return committed(cluster, "counters")

    assert to("offset:4") == [4, 4]
    assert to("shift:3", "-t", "read:1") == [4, 7]
    assert to("shift:-5", "--all-topics") == [0, 2]
    assert to("latest") == [10, 10]
    assert to("1970-01-01T00:00:09") == [4, 4]
    assert to("current") == [4, 4]
    assert to("offset:99", "-t", "read:0") == [10, 4]
    assert to("duration:1h") == [10, 10]
    shown = tool(*reset, "earliest", *find, "-t", "read", "--csv", "--dry-run")
    assert shown == "read,0,0\nread,1,0\n"
    assert committed(cluster, "counters") == [10, 10]
    file = tmp_path / "offsets.csv"
    file.write_text(shown.replace(",1,0", ",1,8"))
    assert to(f"file:{file}", "--kept-by", "coordinator") == [0, 8]
    assert "cannot be shifted" in tool(*reset[:2], "new", "shift:1", *find, "-t", "read", status=1)
    assert "give -t TOPIC, or --all-topics" in tool(*reset, "latest", *find, status=2)


def test_kafka_consumer_groups_matches_genuine_tool(cluster, tool, tmp_path):
    genuine = ["kafka-consumer-groups.sh", "--bootstrap-server", cluster.bootstrap_servers]
    reset = [*genuine, "--reset-offsets", "--group", "ours", "--topic", "read:0,1"]
    shown = tool(*reset, "--to-offset", 3)
    lines = [
        "",
        "TOPIC                          PARTITION  NEW-OFFSET     ",
        "read                           0          3              ",
        "read                           1          3              ",
    ]
    assert shown.split("\n")[:4] == lines
    assert committed(cluster, "ours") == [-1001, -1001]
    tool(*reset, "--to-offset", 3, "--execute")
    ours = [*genuine, "--reset-offsets", "--group", "ours", "--all-topics"]
    tool(*ours, "--shift-by", -1, "--execute")
    assert committed(cluster, "ours") == [2, 2]
    for where, reached in (
        (("--to-latest",), [10, 10]),
        (("--to-datetime", "1970-01-01T00:00:09.000"), [4, 4]),
        (("--by-duration", "PT1H"), [10, 10]),
        (("--to-current",), [10, 10]),
        (("--to-earliest",), [0, 0]),
    ):
        tool(*reset, *where, "--dry-run")
        tool(*reset, *where, "--execute")
        assert committed(cluster, "ours") == reached, where
    exported = tool(*reset, "--to-offset", 2, "--export")
    assert exported == "read,0,2\nread,1,2\n"
    file = tmp_path / "genuine.csv"
    file.write_text(exported)
    tool(*ours, "--from-file", file, "--execute")
    assert committed(cluster, "ours") == [2, 2]
    assert "ours\n" in tool(*genuine, "--list")
    described = tool(*genuine, "--describe", "--group", "ours").split("\n")
    assert described[1] == (
        "TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
        "CONSUMER-ID     HOST            CLIENT-ID"
    )
    assert described[2].split() == ["read", "0", "2", "10", "8", "-", "-", "-"]
    state = tool(*genuine, "--describe", "--group", "ours", "--state").split("\n")
    assert state[1].split() == ["COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert state[2].split()[-2:] == ["Empty", "0"]
    assert "does not exist" in tool(*genuine, "--describe", "--group", "none", status=1)
    deleted = tool(*genuine, "--delete", "--group", "ours")
    assert deleted == "Deletion of requested consumer groups ('ours') was successful.\n"
    assert "give exactly one of --list" in tool(*genuine, status=2)


def test_group_members_are_listed_with_clients_and_hosts(cluster, tool):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "present",
            "client.id": "reader-1",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe(["read"])
        assert consumer.poll(60) is not None
        find = ["-b", cluster.bootstrap_servers]
        shown = tool("groups", "describe", "present", *find, "--members").splitlines()
        assert shown[1].split()[1:] == ["reader-1", "127.0.0.1", "2", "read:0,1"]
        genuine = tool(
            "kafka-consumer-groups", "--bootstrap-server", cluster.bootstrap_servers,
            "--describe", "--group", "present", "--members",
        ).split("\n")  # fmt: skip
        assert genuine[1].split() == ["CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
        assert genuine[2].split()[1:] == ["/127.0.0.1", "reader-1", "2"]
        assert "Stable" in tool("groups", "describe", "present", *find, "--state")
    finally:
        consumer.close()
