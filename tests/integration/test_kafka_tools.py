"""The names and options of the genuine tools, as scripts use them, against a real cluster."""

from tests.support.clusters import module_cluster

cluster = module_cluster()


def test_script_of_genuine_tools_runs_unchanged(cluster, tool, tmp_path):
    zookeeper, brokers = cluster.zookeeper, cluster.bootstrap_servers
    create = ["kafka-topics.sh", "--zookeeper", zookeeper, "--create", "--topic", "old"]
    tool(*create, "--partitions", 2, "--replication-factor", 1, "--config", "retention.ms=60000")
    assert "old" in tool("kafka-topics", "--zookeeper", zookeeper, "--list").splitlines()
    described = tool("kafka-topics", "--zookeeper", zookeeper, "--describe", "--topic", "old")
    assert described.startswith("Topic:old\tPartitionCount:2\tReplicationFactor:1\t")
    cluster.create_topic("keyed")
    tool(
        "kafka-console-producer", "--broker-list", brokers, "--topic", "keyed",
        "--compression-codec", "--property", "parse.key=true", "--property", "key.separator=,",
        stdin=b"a,1\nb,2\n",
    )  # fmt: skip
    config = tmp_path / "consumer.properties"
    config.write_text(f"group.id=scripts\nzookeeper.connect={zookeeper}\n")
    shown = tool(
        "kafka-console-consumer", "--zookeeper", zookeeper, "--topic", "keyed", "--from-beginning",
        "--consumer.config", config, "--max-messages", 2, "--property", "print.key=true",
    )  # fmt: skip
    assert shown == "a\t1\nb\t2\n"
    offsets = "kafka.tools.GetOffsetShell"
    assert (
        tool(offsets, "--broker-list", brokers, "--topic", "keyed", "--time", -1) == "keyed:0:2\n"
    )
    checked = tool(
        "kafka.tools.ConsumerOffsetChecker", "--zookeeper", zookeeper, "--group", "scripts",
        "--topic", "keyed", "--broker-info",
    )  # fmt: skip
    assert checked.splitlines()[1].split()[:4] == ["scripts", "keyed", "0", "2"]
    assert checked.splitlines()[2:] == ["BROKER INFO", f"1 -> {brokers}"]
    tool("kafka.tools.UpdateOffsetsInZK", "earliest", config, "keyed")
    exported = tmp_path / "offsets"
    tool(
        "kafka.tools.ExportZkOffsets", "--zkconnect", zookeeper, "--group", "scripts",
        "--output-file", exported,
    )  # fmt: skip
    assert exported.read_text() == "/consumers/scripts/offsets/keyed/0:0\n"
    tool("kafka.tools.ImportZkOffsets", "--zkconnect", zookeeper, "--input-file", exported)
    shown = tool(
        "kafka-simple-consumer-shell", "--broker-list", brokers, "--topic", "keyed",
        "--no-wait-at-logend",
    )  # fmt: skip
    assert shown == "1\n2\n"
    segment = cluster.broker(1).data_directory / "keyed-0" / "00000000000000000000.log"
    dumped = tool("kafka.tools.DumpLogSegments", "--files", segment, "--print-data-log")
    assert "payload: 1" in dumped
    assert "key: a" in dumped


def test_console_consumer_formatters(cluster, tool):
    topic = cluster.create_topic()
    publish(tool, cluster, topic, b"a\nb\n")
    read = ("kafka-console-consumer", "--bootstrap-server", cluster.bootstrap_servers,
            "--topic", topic, "--from-beginning", "--max-messages", 2)  # fmt: skip
    assert tool(*read, "--formatter", "kafka.tools.NoOpMessageFormatter") == ""
    assert tool(*read, "--formatter", "kafka.tools.DefaultMessageFormatter") == "a\nb\n"
    assert "--formatter x.Mine is not here" in tool(*read, "--formatter", "x.Mine", status=2)


def publish(tool, cluster, topic, lines):
    tool(
        "kafka-console-producer", "--broker-list", cluster.bootstrap_servers, "--topic", topic,
        stdin=lines,
    )  # fmt: skip


def test_blacklisted_topics_are_not_read(cluster, tool):
    for name in ("wanted-1", "unwanted-1"):
        cluster.create_topic(name)
        publish(tool, cluster, name, name.encode() + b"\n")
    shown = tool(
        "kafka-console-consumer", "--zookeeper", cluster.zookeeper, "--from-beginning",
        "--blacklist", "(?!wanted-1).*", "--timeout-ms", 60_000, "--max-messages", 1,
    )  # fmt: skip
    assert shown == "wanted-1\n"


def test_group_with_deleted_offsets_starts_again(cluster, tool):
    topic = cluster.create_topic()
    publish(tool, cluster, topic, b"a\nb\n")
    read = (
        "kafka-console-consumer", "--zookeeper", cluster.zookeeper, "--topic", topic,
        "--from-beginning", "--consumer-property", "group.id=again", "--max-messages",
    )  # fmt: skip
    assert tool(*read, 1) == "a\n"
    assert tool(*read, 1) == "b\n"
    assert tool(*read, 2, "--delete-consumer-offsets") == "a\nb\n"


def test_deleting_offsets_of_a_coordinator_group_is_refused(cluster, tool):
    errors = tool(
        "consume", "-b", cluster.bootstrap_servers, "-G", "g", "t", "--delete-consumer-offsets",
        status=2,
    )  # fmt: skip
    assert "deletes a group that is kept in ZooKeeper: give -z and -G" in errors


def test_message_that_does_not_fit_the_format_is_skipped_on_request(cluster, tool):
    topic = cluster.create_topic()
    publish(tool, cluster, topic, b"1234\nx\n5678\n")
    read = ("consume", "-b", cluster.bootstrap_servers, "-t", topic, "-e", "-s", "value=cccc")
    assert "0 bytes are left where -s cccc wants 1" in tool(*read, status=1)
    assert tool(*read, "--skip-message-on-error") == "1234\n5678\n"
