"""A data directory written by genuine Kafka is adopted and served as it is."""

import shutil

import pytest
from click.testing import CliRunner

from tests.support.brokers import MortalBroker
from tests.support.markdown import ROOT
from tests.support.mirroring import read_all
from zkbroker.cli.main import cli
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import ConfigError, RegistryError, StorageError
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry import paths
from zkbroker.registry.topics import assignment

GOLDEN = ROOT / "tests/golden/data/segments/kafka-2.3.0"
META = "#Fri Nov 20 12:00:00 UTC 2026\nversion=0\nbroker.id=0\ncluster.id=hFMNK6uVRoCgPYx9-GcUxA\n"


@pytest.fixture
def directory(tmp_path):
    data = shutil.copytree(GOLDEN, tmp_path / "kafka-logs")
    (data / "meta.properties").write_text(META)
    return data


def zkbroker(*arguments):
    ran = CliRunner().invoke(cli, ["adopt", *map(str, arguments)], catch_exceptions=False)
    assert ran.exit_code == 0
    return ran.output


def test_adopted_genuine_data_is_served_unchanged(directory, chroot, tmp_path):
    assert "of broker 0, cluster hFMNK6uVRoCgPYx9-GcUxA" in zkbroker(directory, "--dry-run")
    partitions = sum(each.is_dir() for each in directory.iterdir())
    assert f"{partitions} assigned to broker 0 now, 0 before" in zkbroker(directory, "-z", chroot)
    assert f"0 assigned to broker 0 now, {partitions} before" in zkbroker(directory, "-z", chroot)
    broker = MortalBroker(
        tmp_path,
        {
            "broker.id": "0",
            "zookeeper.connect": chroot,
            "log.dirs": str(directory),
            # Keep the old messages.
            "log.retention.ms": "-1",
        },
    )
    broker.start()
    try:
        for topic in ("g-v0-access", "g-v1-access", "g-v2-access"):
            read = read_all(chroot, topic)[0]
            assert [message.offset for message in read] == list(range(3000))
            assert b"HTTP/1." in read[-1].value
    finally:
        assert broker.stop()


def test_partitions_of_another_broker_are_not_adopted(directory, chroot, zk):
    zkbroker(directory, "-z", chroot)
    (directory / "meta.properties").write_text(META.replace("broker.id=0", "broker.id=1"))
    shutil.copytree(directory / "g-v2-none-0", directory / "g-v2-none-2")
    shown = zkbroker(directory, "-z", chroot)
    assert "g-v2-none-0 is broker 0's; its data here is not served" in shown
    assert "g-v2-none-1 is in none of these directories" in shown
    assert {p: list(r) for p, r in assignment(zk, "g-v2-none").items()} == {0: [0], 2: [1]}


def test_adoption_of_other_broker_or_cluster_is_refused(directory, chroot, zk, tmp_path):
    other = tmp_path / "other"
    (other / "looks-1").mkdir(parents=True)
    with pytest.raises(StorageError, match="is not a data directory"):
        zkbroker(other, "-z", chroot, "--broker-id", 0)
    shutil.copytree(directory / "g-v2-none-0", other / "g-v2-none-0")
    with pytest.raises(ConfigError, match="give its id"):
        zkbroker(other, "-z", chroot)
    with pytest.raises(ConfigError, match="belong to broker 0, not 7"):
        zkbroker(directory, "-z", chroot, "--broker-id", 7)
    (other / "meta.properties").write_text(META.replace("broker.id=0", "broker.id=1"))
    with pytest.raises(StorageError, match="different brokers"):
        zkbroker(directory, other, "-z", chroot)
    zk.create("/cluster/id", b'{"version":"1","id":"another"}', parents=True)
    with pytest.raises(RegistryError, match="chroot of its own"):
        zkbroker(directory, "-z", chroot)


def served(chroot, directory, work, values):
    """Start a broker, send some values as a new idempotent producer, and return all there are."""
    broker = MortalBroker(
        work, {"broker.id": "0", "zookeeper.connect": chroot, "log.dirs": str(directory)}
    )
    broker.start()
    try:
        config = ProducerConfig.from_properties(
            {"zk.connect": chroot, "enable.idempotence": "true", "producer.type": "sync"}
        )
        with Producer(config) as producer:
            for value in values:
                producer.send(KeyedMessage("visits", value))
        return [message.value for message in read_all(chroot, "visits")[0]]
    finally:
        assert broker.stop()


def test_new_producer_id_is_above_those_in_adopted_logs(chroot, zk, tmp_path):
    directory = tmp_path / "kafka-logs"
    before, moved = f"{chroot}/before", f"{chroot}/moved"
    sent = [b"%d" % number for number in range(5)]
    assert served(before, directory, tmp_path, sent) == sent
    (directory / "meta.properties").write_text("version=0\nbroker.id=0\n")
    assert "assigned to broker 0 now" in zkbroker(directory, "-z", moved)
    more = [b"%d" % number for number in range(10, 15)]
    assert served(moved, directory, tmp_path, more) == sent + more
    # The same where only ZooKeeper forgot: every start looks at the logs.
    zk.delete("/moved" + paths.PRODUCER_ID_BLOCK)
    last = [b"%d" % number for number in range(20, 25)]
    assert served(moved, directory, tmp_path, last) == sent + more + last
