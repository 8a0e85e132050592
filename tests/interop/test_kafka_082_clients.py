"""Genuine Kafka 0.8.2.2 producers, consumers and tools on our cluster.

The tools' output is compared with that of our own commands under the same names, line by line.
"""

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import java_clients
from tests.support.clusters import module_cluster
from tests.support.group_members import wait_for
from zkbroker.cli.main import cli
from zkbroker.registry import groups
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

pytestmark = pytest.mark.skipif(java_clients.old_missing(), reason=java_clients.REASON)

CONSUMER = "kafka.tools.ConsoleConsumer"
MESSAGES = 300


cluster = module_cluster(2, check_logs=True, properties={"offsets.topic.num.partitions": "2"})


def genuine(main_class: str, *arguments: object, text: str = "") -> str:
    command = java_clients.tool_command(main_class, *map(str, arguments))
    return java_clients.run(command, text=text, timeout_s=300)


def ours(main_class: str, *arguments: object) -> str:
    done = CliRunner().invoke(cli, [main_class, *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def write(cluster: LocalCluster, topic: str, lines: list[str], *options: str) -> None:
    genuine(
        "kafka.tools.ConsoleProducer", "--broker-list", cluster.bootstrap_servers,
        "--topic", topic, *options, text="".join(line + "\n" for line in lines),
    )  # fmt: skip


def group_file(directory: Path, cluster: LocalCluster, group: str, **more: str) -> Path:
    settings = {
        "zookeeper.connect": cluster.zookeeper,
        "group.id": group,
        "zookeeper.session.timeout.ms": "30000",
        "auto.commit.interval.ms": "100",
        "rebalance.backoff.ms": "500",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    path = directory / f"{group}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


@pytest.mark.parametrize(
    ("codec", "producer"),
    [
        ("none", "--sync"),
        ("gzip", "--new-producer"),
        ("snappy", "--sync"),
        ("lz4", "--new-producer"),
        pytest.param("none", "--new-producer", marks=pytest.mark.soak),
        pytest.param("gzip", "--sync", marks=pytest.mark.soak),
        pytest.param("snappy", "--new-producer", marks=pytest.mark.soak),
        pytest.param("lz4", "--sync", marks=pytest.mark.soak),
    ],
)
def test_both_producers_write_with_every_codec(
    cluster: LocalCluster, codec: str, producer: str, tmp_path: Path
) -> None:
    topic = f"by{producer}-{codec}"
    lines = [f"{codec} {number}" for number in range(MESSAGES)]
    cluster.create_topic(topic, partitions=2)
    write(cluster, topic, lines, "--compression-codec", codec, producer)
    read = genuine(
        CONSUMER, "--zookeeper", cluster.zookeeper, "--topic", topic, "--from-beginning",
        "--max-messages", MESSAGES,
    )  # fmt: skip
    assert sorted(read.splitlines()) == sorted(lines)
    paths = [
        path
        for broker in cluster.brokers
        for path in broker.data_directory.glob(f"{topic}-*/*.log")
    ]
    dumped = genuine(
        "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, paths))
    )
    assert dumped.count("isvalid: true payloadsize") == MESSAGES


def test_consumer_continues_from_offsets_kept_by_brokers(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic("kept", partitions=2)
    lines = [str(number) for number in range(MESSAGES)]
    write(cluster, "kept", lines, "--batch-size", "10")
    config = group_file(
        tmp_path,
        cluster,
        "kept-by-brokers",
        offsets_storage="kafka",
        dual_commit_enabled="false",
        auto_offset_reset="smallest",
    )
    some = ("--zookeeper", cluster.zookeeper, "--topic", "kept", "--consumer.config", config)
    first = genuine(CONSUMER, *some, "--from-beginning", "--max-messages", 100).splitlines()
    rest = genuine(CONSUMER, *some, "--max-messages", MESSAGES - 100).splitlines()
    assert len(first) == 100
    assert sorted(first + rest) == sorted(lines)


def test_our_tools_print_output_of_genuine_tools(cluster: LocalCluster, tmp_path: Path) -> None:
    made = genuine(
        "kafka.admin.TopicCommand", "--zookeeper", cluster.zookeeper, "--create",
        "--topic", "printed", "--partitions", 3, "--replication-factor", 1,
    )  # fmt: skip
    assert made == 'Created topic "printed".\n'
    write(cluster, "printed", [str(number) for number in range(30)], "--batch-size", "1")
    zookeeper = ("--zookeeper", cluster.zookeeper)
    alter = ("kafka.admin.TopicCommand", *zookeeper, "--alter", "--topic", "printed")
    genuine(*alter, "--config", "retention.ms=86400000")
    genuine(*alter, "--partitions", 4)
    config = group_file(tmp_path, cluster, "tellers")
    genuine(
        CONSUMER, *zookeeper, "--topic", "printed", "--consumer.config", config, "--from-beginning",
        "--max-messages", 30,
    )  # fmt: skip
    brokers = ("--broker-list", cluster.bootstrap_servers)
    checker = ("kafka.tools.ConsumerOffsetChecker", *zookeeper, "--group", "tellers")
    for tool in (
        ("kafka.admin.TopicCommand", *zookeeper, "--describe", "--topic", "printed"),
        ("kafka.admin.TopicCommand", *zookeeper, "--list"),
        ("kafka.tools.GetOffsetShell", *brokers, "--topic", "printed", "--time", -1),
        ("kafka.tools.GetOffsetShell", *brokers, "--topic", "printed", "--time", -2),
        checker,
    ):
        assert genuine(*tool).splitlines() == ours(*tool).splitlines(), tool
    # The genuine tool lists the brokers in the order of a hash table.
    with_brokers = (*checker, "--broker-info")
    assert sorted(genuine(*with_brokers).splitlines()) == sorted(ours(*with_brokers).splitlines())
    written = []
    for run in (genuine, ours):
        path = tmp_path / run.__name__
        run(
            "kafka.tools.ExportZkOffsets", "--zkconnect", cluster.zookeeper, "--group", "tellers",
            "--output-file", path,
        )  # fmt: skip
        written.append(path.read_text().splitlines())
    assert written[0] == written[1]


class Member:
    """A console consumer of either kind; it notes the lines it prints."""

    def __init__(self, command: list[str]) -> None:
        self.read: list[str] = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.read.append(line.rstrip())

    def leave(self) -> None:
        self.process.terminate()
        assert self.process.wait(300) == 143
        self._thread.join(120)


def test_replica_verification_tool_reads_from_followers(cluster: LocalCluster) -> None:
    cluster.create_topic("verified", replication=2)
    write(cluster, "verified", [f"line {n}" for n in range(50)])
    tool = Member(
        java_clients.tool_command(
            "kafka.tools.ReplicaVerificationTool", "--broker-list", cluster.bootstrap_servers,
            "--topic-white-list", "verified", "--report-interval-ms", "200", "--time", "-2",
        )
    )  # fmt: skip
    try:
        same = "max lag is 0 for partition [verified,0] at offset 50 among"
        wait_for(lambda: any(same in line for line in tool.read), lambda: tool.read[-3:])
    finally:
        tool.leave()
    assert not [line for line in tool.read if "error" in line.lower()]


@pytest.mark.parametrize("strategy", ["range", pytest.param("roundrobin", marks=pytest.mark.soak)])
def test_genuine_consumers_share_a_group_with_ours(
    cluster: LocalCluster, strategy: str, tmp_path: Path
) -> None:
    topic = f"shared-{strategy}"
    cluster.create_topic(topic, partitions=4)
    config = group_file(
        tmp_path, cluster, f"sharers-{strategy}", partition_assignment_strategy=strategy
    )
    options = ["--zookeeper", cluster.zookeeper, "--topic", topic, "--consumer.config", str(config)]
    sent: list[str] = []
    settings = ("auto.commit.interval.ms=100", f"partition.assignment.strategy={strategy}")
    consume = [sys.executable, "-m", "zkbroker.cli", "consume", topic, "-u"]
    consume += ["-z", cluster.zookeeper, "-G", f"sharers-{strategy}"]
    consume += [part for setting in settings for part in ("-X", setting)]
    members = [Member(java_clients.tool_command(CONSUMER, *options, "--from-beginning"))]

    def send() -> None:
        lines = [f"{len(sent) + number}" for number in range(40)]
        sent.extend(lines)
        write(cluster, topic, lines, "--batch-size", "1", "--new-producer")

    def owners() -> Counter[str]:
        with ZkSession(cluster.zookeeper) as session:
            return Counter(groups.owners(session, f"sharers-{strategy}", topic).values())

    def all_read() -> bool:
        return {line for member in members for line in member.read} == set(sent)

    try:
        send()
        # Told to begin at the beginning, the genuine one refuses a group that has offsets already.
        wait_for(all_read, lambda: f"not all read: {len(members[0].read)}")
        members.append(Member(consume))
        wait_for(lambda: sorted(owners().values()) == [2, 2], lambda: f"not shared: {owners()}")
        send()
        wait_for(all_read, lambda: f"not all read: {[len(member.read) for member in members]}")
        assert all(member.read for member in members)
        for leaver in members:
            leaver.leave()
            send()
            if leaver is members[0]:
                wait_for(all_read, lambda: f"not all read: {[len(m.read) for m in members]}")
                assert sorted(owners().values()) == [4]
        members.append(Member(java_clients.tool_command(CONSUMER, *options)))
        wait_for(all_read, lambda: f"not all read: {[len(member.read) for member in members]}")
    finally:
        for member in members:
            member.process.kill()
            member.process.wait()
    # No member crashed, so nothing was delivered twice.
    assert Counter(line for member in members for line in member.read) == Counter(sent)
