"""The example that stores offsets with its output, killed repeatedly."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

from examples.exactly_once import Store
from tests.support.clusters import module_cluster
from tests.support.process import eventually
from tests.support.producing import TestProducer
from zkbroker.consumer import MessageAndMetadata
from zkbroker.testing import LocalCluster

cluster = module_cluster(1)


def counted(database: Path) -> int:
    with sqlite3.connect(database, timeout=300) as connection:
        return int(connection.execute("SELECT coalesce(sum(count), 0) FROM counts").fetchone()[0])


def test_each_message_is_counted_once_while_members_are_killed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=3)
    producer = TestProducer(cluster.bootstrap_servers)
    database = tmp_path / "counts.db"
    Store(str(database)).database.close()

    def member() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "examples.exactly_once"]
        command += ["--zookeeper", cluster.zookeeper, "--topic", topic]
        return subprocess.Popen(
            [*command, "--database", str(database), "--session-timeout-ms", "4000"]
        )

    values = [b"%d" % (i % 7) for i in range(500)]
    members = [member(), member()]
    total = 0
    try:
        for _ in range(3):
            for partition in range(3):
                producer.send(topic, partition, values)
            total += 1500
            eventually(lambda wanted=total - 1000: counted(database) >= wanted, timeout_s=300)
            victim = members.pop(0)
            victim.kill()
            victim.wait()
            members.append(member())
        eventually(lambda: counted(database) >= total, timeout_s=300)
    finally:
        for each in members:
            each.send_signal(signal.SIGTERM)
            each.wait(300)
        producer.close()
    with sqlite3.connect(database) as connection:
        counts = dict(connection.execute("SELECT value, count FROM counts"))
        offsets = connection.execute("SELECT partition, next_offset FROM offsets").fetchall()
    assert counts == {b"%d" % v: 9 * values.count(b"%d" % v) for v in range(7)}
    assert sorted(offsets) == [(0, 1500), (1, 1500), (2, 1500)]


def test_replaced_member_counts_no_message(tmp_path: Path) -> None:
    zombie, successor = (Store(str(tmp_path / "counts.db")) for _ in range(2))
    messages = [MessageAndMetadata("t", 0, i, None, b"v", -1, -1, ()) for i in range(3)]
    assert zombie.next_offset("t", 0) == 0
    assert zombie.add(messages[0])
    assert successor.next_offset("t", 0) == 1
    assert successor.add(messages[1])
    assert not zombie.add(messages[1])
    assert successor.add(messages[2])
    assert counted(tmp_path / "counts.db") == 3
