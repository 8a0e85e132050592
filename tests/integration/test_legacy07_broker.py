"""A broker with 0.7 clients, on its own directories and on those of a genuine broker."""

import re
import time

import pytest

from tests.support.broker_requests import fetch, message_set, values
from tests.support.broker_requests import produce as produce_modern
from tests.support.brokers import MortalBroker, connect, running_broker
from tests.support.client07 import (
    Broker07,
    Member07,
    broker_address,
    entry,
    gzip_wrapper,
    parse,
    produce,
)
from tests.support.legacy07 import unpack, znodes
from tests.support.zookeeper import until
from zkbroker.cluster.process import BrokerProcess
from zkbroker.errors import ClientError, ZkbrokerError
from zkbroker.legacy07 import Cluster07, Partition07


def settings(tmp_path, tree, **more):
    return {
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.log.dir": str(tmp_path / "legacy"),
        "legacy07.zookeeper.chroot": tree.path,
        "log.flush.interval": "1",
        "num.partitions": "4",
        **{key.replace("_", "."): str(value) for key, value in more.items()},
    }


def payloads(member):
    return sorted(payload for _, _, payload in member.messages)


def test_broker_serves_both_generations(tmp_path, chroot, tree):
    with running_broker(tmp_path, chroot, settings(tmp_path, tree), "t") as process:
        node = tree.get("/brokers/ids/0")[0].decode()
        assert re.fullmatch(r"127\.0\.0\.1-\d{13}:127\.0\.0\.1:\d+", node)
        with connect(process) as modern:
            stored = produce_modern(modern, "t", message_set(2, [b"modern"]))
            broker = Broker07(*broker_address(tree, 0))
            broker.produce("t", 0, entry(b"old") + gzip_wrapper([b"a", b"b"]))
            end = broker.offsets("t", 0, -1)[0]
            ((error, data),) = broker.multifetch([("t", 0, 0)])
            assert (error, len(data)) == (0, end)
            assert [each for _, _, inner in parse(data) for each in inner] == [b"old", b"a", b"b"]
            # Each generation has its own data, under the same name.
            assert values(fetch(modern, "t", stored.base_offset), stored.base_offset) == [b"modern"]
        until(lambda: tree.exists("/brokers/topics/t/0"))
        assert tree.get("/brokers/topics/t/0")[0] == b"4"
        broker.close()
    assert tree.get_children("/brokers/ids") == []
    assert (tmp_path / "legacy" / ".kafka_cleanshutdown").exists()


def test_group_splits_partitions_and_takes_over(tmp_path, chroot, tree):
    with running_broker(tmp_path, chroot, settings(tmp_path, tree)):
        first = Broker07(*broker_address(tree, 0))
        first.produce("t", 0, entry(b"first"))
        until(lambda: tree.exists("/brokers/topics/t/0"))
        sent = [b"%05d" % n for n in range(400)]
        produce(tree, "t", sent[:200])
        one = Member07(tree.connect_string, "g", {"t": 1}).start()
        until(lambda: len(one.messages) == 201)
        assert set(one.owned) == {("t", f"0-{n}") for n in range(4)}
        two = Member07(tree.connect_string, "g", {"t": 2}).start()
        until(
            lambda: len(one.owned) == 2 - (one.id > two.id) and len(one.owned) + len(two.owned) == 4
        )
        threads = sorted([f"{one.id}-0", f"{two.id}-0", f"{two.id}-1"])
        owners = [tree.get(f"/consumers/g/owners/t/0-{n}")[0].decode() for n in range(4)]
        assert owners == [threads[0], threads[0], threads[1], threads[2]]
        produce(tree, "t", sent[200:], seed=1)
        until(lambda: len(one.messages) + len(two.messages) >= 401)
        # Messages that a dead member did not commit are read again, and none is skipped.
        two.die()
        until(lambda: len(one.owned) == 4)
        until(lambda: {m for *_, m in one.messages + two.messages} == {b"first", *sent})
        until(
            lambda: all(
                one.positions["t", f"0-{n}"] == first.offsets("t", n, -1)[0] for n in range(4)
            )
        )
        one.close()
        committed = {n: int(tree.get(f"/consumers/g/offsets/t/0-{n}")[0]) for n in range(4)}
        assert committed == {n: first.offsets("t", n, -1)[0] for n in range(4)}
        first.close()


def test_positions_of_genuine_group_stay_valid_on_adopted_directory(tmp_path, chroot, tree):
    unpack(tmp_path, "kafka-0.7.2-more/wire").rename(tmp_path / "legacy")
    genuine = znodes("kafka-0.7.2-2-two-consumers-in-a-group.txt")
    commits = {}
    for path, (_, value) in genuine.items():
        if path.startswith("/consumers/g07-grp/offsets/") and value is not None:
            tree.create(path, value.encode(), makepath=True)
            commits[path.rpartition("/")[2]] = int(value)
    assert commits == {"0-0": 1178, "0-1": 949, "0-2": 671, "0-3": 1351}
    with running_broker(tmp_path, chroot, settings(tmp_path, tree)):
        member = Member07(tree.connect_string, "g07-grp", {"g07g": 2}).start()
        expected = []
        for name, position in commits.items():
            path = tmp_path / "legacy" / f"g07g-{name[-1]}" / f"{0:020d}.kafka"
            rest = parse(path.read_bytes()[position:])
            expected += [each for _, _, inner in rest for each in inner]
        until(lambda: len(member.messages) >= len(expected))
        time.sleep(0.3)
        assert payloads(member) == sorted(expected)
        assert member.first == {("g07g", name): position for name, position in commits.items()}
        assert member.resets == 0
        member.close()


def test_killed_broker_keeps_read_messages_and_groups_continue(tmp_path, chroot, tree):
    process = MortalBroker(
        tmp_path, {"broker.id": "0", "zookeeper.connect": chroot, **settings(tmp_path, tree)}
    )
    process.start()
    try:
        broker = Broker07(*broker_address(tree, 0))
        broker.produce("t", 0, entry(b"first"))
        until(lambda: tree.exists("/brokers/topics/t/0"))
        sent = [b"%05d" % n for n in range(300)]
        produce(tree, "t", sent[:150])
        member = Member07(tree.connect_string, "g", {"t": 1}).start()
        until(lambda: len(member.messages) == 151)
        ends = [broker.offsets("t", n, -1)[0] for n in range(4)]
        process.kill()
        process.start()
        until(lambda: tree.exists("/brokers/ids/0") and tree.exists("/brokers/topics/t/0"))
        broker = Broker07(*broker_address(tree, 0))
        assert [broker.offsets("t", n, -1)[0] for n in range(4)] == ends
        produce(tree, "t", sent[150:], seed=2)
        until(lambda: {m for *_, m in member.messages} == {b"first", *sent})
        assert member.resets == 0
        member.close()
    finally:
        process.stop()


def test_0_7_logs_in_log_dirs_are_refused_and_settings_are_named(tmp_path, chroot, tree):
    directory = unpack(tmp_path, "kafka-0.7.2-more/wire")
    process = MortalBroker(
        tmp_path, {"broker.id": "0", "zookeeper.connect": chroot, "log.dirs": str(directory)}
    )
    with pytest.raises(ZkbrokerError) as raised:
        process.start()
    for hint in ("legacy07.listener=host:port", f"legacy07.log.dir={directory}", "log.dirs"):
        assert hint in str(raised.value)


def test_genuine_server_properties_serve_0_7_directory(tmp_path, chroot, tree):
    directory = unpack(tmp_path, "kafka-0.7.2-more/clean-stop")
    genuine = {
        "brokerid": "3",
        "port": "0",
        "num.threads": "8",
        "socket.send.buffer": "1048576",
        "socket.receive.buffer": "1048576",
        "max.socket.request.bytes": "104857600",
        "log.dir": str(directory),
        "num.partitions": "1",
        "log.flush.interval": "10000",
        "log.default.flush.interval.ms": "1000",
        "log.default.flush.scheduler.interval.ms": "1000",
        "log.retention.hours": "876000",
        "log.file.size": "2000",
        "log.cleanup.interval.mins": "1",
        "enable.zookeeper": "true",
        "zk.connect": chroot,
        "zk.connectiontimeout.ms": "1000000",
    }
    added = {
        "broker.id": "3",
        "log.dirs": str(tmp_path / "newer"),
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.log.dir": str(directory),
        "legacy07.zookeeper.chroot": tree.path,
    }
    process = BrokerProcess(tmp_path, {**genuine, **added})
    process.start()
    try:
        broker = Broker07(*broker_address(tree, 3))
        ends = [12725, 12577, 10464, 8365, 6327, 4234, 2143, 0]
        assert broker.offsets("g07s", 0, -1, 100) == ends
        broker.produce("g07s", 0, entry(b"new"))
        # The message is flushed by the timer, not by the number of messages.
        until(lambda: broker.offsets("g07s", 0, -1)[0] == 12725 + len(entry(b"new")))
        broker.close()
    finally:
        process.stop()
    assert (directory / ".kafka_cleanshutdown").exists()


def test_own_consumer_finds_and_reads_partitions(tmp_path, chroot, tree):
    with (
        running_broker(tmp_path, chroot, settings(tmp_path, tree)),
        Cluster07(tree.connect_string) as cluster,
    ):
        assert cluster.numbers("t") == []
        first = Broker07(*broker_address(tree, 0))
        first.produce("t", 0, entry(b"first"))
        first.close()
        until(lambda: cluster.numbers("t") == [Partition07(0, n) for n in range(4)])
        sent = [b"%03d" % n for n in range(100)]
        produce(tree, "t", sent)
        found = []
        for partition in cluster.numbers("t"):
            offset = 0
            while got := (
                reader := cluster.consumer(partition.broker).fetch("t", partition.number, offset)
            ).messages:
                found += [message.payload for message in got]
                offset = reader.next_offset
        assert sorted(found) == sorted([b"first", *sent])
        with pytest.raises(ClientError, match="broker 7 of"):
            cluster.consumer(7)
