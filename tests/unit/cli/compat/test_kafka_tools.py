import click
import pytest

from zkbroker.cli.compat.kafka_tools import CLASSES, TOOLS

CONSUME = ("--zookeeper", "zk:2181", "--topic", "t")


def translated(tool, *arguments):
    found = TOOLS[tool]
    return found.translate(found.parse(arguments))


def test_every_tool_has_a_class_name():
    # A script alone: it finds processes.
    assert set(CLASSES.values()) | {"kafka-server-stop"} == set(TOOLS)


@pytest.mark.parametrize("tool", ["kafka-console-consumer", "kafka-simple-consumer-shell"])
def test_known_formatters_are_translated_and_others_refused(tool, capsys):
    where = (
        CONSUME if tool == "kafka-console-consumer" else ("--broker-list", "b:1", "--topic", "t")
    )
    plain = translated(tool, *where)

    def formatted(name):
        shown = translated(tool, *where, "--formatter", name)
        return [part for part in shown if not part.startswith("console-consumer-")]

    assert len(formatted("kafka.tools.DefaultMessageFormatter")) in (len(plain), len(plain) - 1)
    assert "-f" not in formatted("kafka.tools.DefaultMessageFormatter")
    nothing = formatted("kafka.tools.NoOpMessageFormatter")
    assert nothing[nothing.index("-f") + 1] == ""
    with pytest.raises(click.UsageError, match="consume -f FORMAT, or -J"):
        formatted("com.example.MyFormatter")
    with pytest.raises(click.UsageError, match="dump-log --offsets-decoder"):
        formatted(r"kafka.coordinator.group.GroupMetadataManager\$OffsetsMessageFormatter")
    assert "no effect" not in capsys.readouterr().err


def test_mirror_maker_becomes_mirror(tmp_path, capsys):
    old, new, to = (tmp_path / name for name in ("old", "new", "to"))
    old.write_text("zookeeper.connect=z:1\ngroup.id=g\n")
    new.write_text("bootstrap.servers=b:1\ngroup.id=g\n")
    files = ("--consumer.config", str(new), "--producer.config", str(to))
    shown = translated(
        "kafka-mirror-maker",
        *(*files, "--consumer.config", str(new), "--new.consumer", "--whitelist", "a|b"),
        *("--num.streams", "3", "--message.handler", "m:H", "--queue.size", "9"),
    )
    assert shown == [
        *("mirror", "--consumer.config", str(new), "--consumer.config", str(new)),
        *("--producer.config", str(to), "--whitelist", "a|b"),
        *("-X", "num.streams=3", "-X", "message.handler=m:H"),
    ]
    assert "--queue.size has no effect here" in capsys.readouterr().err
    with pytest.raises(click.UsageError, match="exactly one of --whitelist"):
        translated("kafka-mirror-maker", *files)
    with pytest.raises(click.UsageError, match=r"needs bootstrap\.servers"):
        translated(
            "kafka-mirror-maker",
            *("--new.consumer", "--consumer.config", str(old), "--producer.config", str(to)),
            *("--whitelist", "a"),
        )


def test_tools_for_clusters_of_0_7(tmp_path):
    files = []
    for name in ("consumer", "producer"):
        path = tmp_path / f"{name}.properties"
        path.write_text("groupid=g\n")
        files += [f"--{name}.config", str(path)]
    old = ("--kafka.07.jar", "a.jar", "--zkclient.01.jar", "b.jar", "--queue.size", "5")
    shown = translated("kafka-migration-tool", *files, *old, "--whitelist", "t")
    assert shown[-1] == "--from-07"
    assert shown[0] == "mirror"
    assert "a.jar" not in shown
    asked = ("--zookeeper", "z", "--topic", "t", "--property", "kafka.generation=0.7")
    assert "--kafka-generation 0.7" in " ".join(translated("kafka-console-producer", *asked))
    assert "--kafka-generation 0.7" in " ".join(translated("kafka-console-consumer", *asked))


def test_create_in_zookeeper_needs_partitions_and_replication():
    create = ("kafka-topics", "--zookeeper", "zk:2181", "--create", "--topic", "t")
    shown = translated(*create, "--partitions", "8", "--replication-factor", "3")
    assert shown[-4:] == ["--partitions", "8", "--replication-factor", "3"]
    assert translated(*create, "--replica-assignment", "1:2")[-1] == "1:2"
    with pytest.raises(click.UsageError, match="--replication-factor is required"):
        translated(*create, "--partitions", "8")
    with pytest.raises(click.UsageError, match="--partitions is required"):
        translated(*create, "--replication-factor", "3")


def test_topics_tool_takes_brokers_or_zookeeper():
    brokers = ("kafka-topics", "--bootstrap-server", "b:1")
    shown = translated(*brokers, "--create", "--topic", "t", "--command-config", "c")
    assert shown == ["topics", "create", "-b", "b:1", "--command-config", "c", "t"]
    assert translated(*brokers, "--list") == ["topics", "list", "-b", "b:1"]
    for where in ((), (*brokers[1:], "--zookeeper", "z:1")):
        with pytest.raises(click.UsageError, match="exactly one of --bootstrap-server"):
            translated("kafka-topics", *where, "--list")


def test_tools_request_genuine_output():
    assert "--genuine-text" in translated("kafka-preferred-replica-election", *CONSUME[:2])
    where = ("--zookeeper", "zk:2181", "--group", "g")
    assert "--table-only" in translated("kafka-consumer-offset-checker", *where)


def test_console_consumer_options_of_zookeeper_groups():
    where = ("kafka-console-consumer", "--zookeeper", "zk:2181")
    shown = translated(*where, "--blacklist", "a|b", "--delete-consumer-offsets")
    assert shown[-3:] == ["--blacklist", "--delete-consumer-offsets", "a|b"]
    skipping = translated("kafka-console-consumer", *CONSUME, "--skip-message-on-error")
    assert "--skip-message-on-error" in skipping
    for option in (("--blacklist", "t"), ("--topic", "t", "--delete-consumer-offsets")):
        with pytest.raises(click.UsageError, match="kept in ZooKeeper: give --zookeeper"):
            translated("kafka-console-consumer", "--bootstrap-server", "b:1", *option)
    with pytest.raises(click.UsageError, match="--topic, --whitelist and --blacklist"):
        translated(*where, "--topic", "t", "--blacklist", "u")
