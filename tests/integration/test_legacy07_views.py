"""Views of newer partitions for 0.7 clients, on real brokers."""

import contextlib
import zlib

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoNodeError

from tests.support.broker_requests import fetch, message_set, produce
from tests.support.brokers import MortalBroker, connect, running_broker
from tests.support.client07 import (
    Broker07,
    Member07,
    broker_address,
    broker_partitions,
    entry,
    gzip_wrapper,
    parse,
)
from tests.support.client07 import produce as produce_07
from tests.support.zookeeper import until
from zkbroker.admin import zk_groups
from zkbroker.admin.log_check import check_logs
from zkbroker.cli.connection import open_session
from zkbroker.cli.offsets import command
from zkbroker.protocol.messages import CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import Codec, iter_records

SETTINGS = {
    "legacy07.listener": "127.0.0.1:0",
    "log.flush.interval": "1",
    "log.default.flush.scheduler.interval.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "3000",
}


def settings(directory, tree, broker_id=0, **more):
    return {
        "broker.id": str(broker_id),
        "legacy07.log.dir": str(directory / "legacy"),
        "legacy07.zookeeper.chroot": tree.path,
        **SETTINGS,
        **{key.replace("_", "."): str(value) for key, value in more.items()},
    }


def read_07(broker, topic, number=0, position=0):
    """Return (payload, next position) of everything from a position on."""
    found = []
    while True:
        ((error, data),) = broker.multifetch([(topic, number, position)])
        assert error == 0
        entries = parse(data)
        if not entries:
            return found
        for begin, end, payloads in entries:
            found += [(each, position + begin) for each in payloads[:-1]]
            found.append((payloads[-1], position + end))
        position += entries[-1][1]


def payloads_07(broker, topic, number=0):
    return [payload for payload, _ in read_07(broker, topic, number)]


def values(process, topic, number=0):
    """Return the values of a partition that a newer consumer reads."""
    with connect(process) as connection:
        found, offset = [], 0
        while True:
            answer = fetch(connection, topic, offset, partition=number)
            records = [*iter_records(answer.records, start_offset=offset)]
            if not records:
                return found
            found += [each.value for each in records]
            offset = records[-1].offset + 1


def send(process, topic, wanted, codec=Codec.NONE, magic=2):
    with connect(process) as connection:
        version = None if magic == 2 else 2
        answer = produce(connection, topic, message_set(magic, wanted, codec), version=version)
        assert answer.error_code == 0


def registered(tree, topic):
    """Return what broker 0 has registered of a topic, None while it is not registered."""
    try:
        return tree.get(f"/brokers/topics/{topic}/0")[0]
    except NoNodeError:
        return None


@pytest.fixture
def process(tmp_path, chroot, tree):
    with running_broker(tmp_path, chroot, settings(tmp_path, tree)) as running:
        yield running


def test_both_generations_read_messages_of_each_other(process, tree):
    broker = Broker07(*broker_address(tree, 0))
    sent = entry(b"one", magic=0) + entry(b"two") + gzip_wrapper([b"three", b"four"])
    broker.produce("t", 0, sent)
    until(lambda: tree.exists("/brokers/topics/t/0"))
    assert tree.get("/brokers/topics/t/0")[0] == b"1"
    # As it was sent, byte for byte.
    ((error, data),) = broker.multifetch([("t", 0, 0)])
    assert (error, data) == (0, sent)
    assert values(process, "t") == [b"one", b"two", b"three", b"four"]
    send(process, "t", [b"five", b"six"], Codec.GZIP)
    send(process, "t", [b"seven"], magic=0)
    broker.produce("t", 0, entry(b"eight"))
    wanted = [b"one", b"two", b"three", b"four", b"five", b"six", b"seven", b"eight"]
    until(lambda: len(payloads_07(broker, "t")) == 8)
    assert payloads_07(broker, "t") == values(process, "t") == wanted
    ((_, data),) = broker.multifetch([("t", 0, len(sent))])
    assert data == b"".join(map(entry, wanted[4:]))
    broker.close()


def test_matching_newer_topic_is_shown_as_view(tmp_path, chroot, tree):
    own = settings(tmp_path, tree, legacy07_topics="shared.*")
    with running_broker(tmp_path, chroot, own, "apart") as process:
        with connect(process) as connection:
            connection.request(CreateTopicsRequest(topics=[NewTopic("shared-1", 3, 1)]))
        send(process, "shared-1", [b"early"])
        send(process, "apart", [b"not shown"])
        until(lambda: registered(tree, "shared-1") == b"3")
        # Registered once, with all its partitions: groups rebalance once.
        assert tree.get("/brokers/topics/shared-1")[1].cversion == 1
        broker = Broker07(*broker_address(tree, 0))
        until(lambda: payloads_07(broker, "shared-1") == [b"early"])
        broker.produce("shared-1", 2, entry(b"late"))
        until(lambda: values(process, "shared-1", 2) == [b"late"])
        assert payloads_07(broker, "apart") == []
        # A group of 0.7 commits positions of the view and continues there.
        member = Member07(tree.connect_string, "g", {"shared-1": 1}).start()
        until(lambda: len(member.messages) == 2)
        member.close()
        send(process, "shared-1", [b"next"])
        member = Member07(tree.connect_string, "g", {"shared-1": 1}).start()
        until(lambda: [each[2] for each in member.messages] == [b"next"])
        member.close()
        with connect(process) as connection:
            connection.request(DeleteTopicsRequest(topics=["shared-1"]))
        until(lambda: tree.exists("/brokers/topics/shared-1/0") is None)
        until(lambda: not list((tmp_path / "legacy").glob("shared-1-*")))
        broker.close()


def test_restarted_broker_shows_messages_at_same_positions(tmp_path, chroot, tree):
    process = MortalBroker(
        tmp_path, {"zookeeper.connect": chroot, **settings(tmp_path, tree, log_flush_interval=7)}
    )
    process.start()
    try:
        broker = Broker07(*broker_address(tree, 0))
        broker.produce("t", 0, entry(b"first"))
        until(lambda: tree.exists("/brokers/topics/t/0"))
        seen = []
        for life in range(3):
            if life == 2:
                process.stop()
            elif life:
                process.kill()
            if life:
                process.start()
                until(lambda: tree.exists("/brokers/ids/0"))
                broker = Broker07(*broker_address(tree, 0))
            for number in range(20):
                broker.produce("t", 0, entry(b"07 %d %d" % (life, number), magic=number % 2))
                broker.produce("t", 0, gzip_wrapper([b"a%d" % number, b"b%d" % number]))
                send(process, "t", [b"new %d %d" % (life, number)], Codec.SNAPPY)
            found = read_07(broker, "t")
            assert found[: len(seen)] == seen
            seen = found
        total = 1 + 3 * 20 * 4
        until(lambda: len(read_07(broker, "t")) == total)
        assert read_07(broker, "t")[: len(seen)] == seen
        assert payloads_07(broker, "t") == values(process, "t")
        broker.close()
    finally:
        process.stop()


def test_group_offsets_convert_between_generations(tmp_path, chroot, tree):
    with running_broker(tmp_path, chroot, settings(tmp_path, tree)) as process:
        broker = Broker07(*broker_address(tree, 0))
        broker.produce("t", 0, entry(b"one") + entry(b"two", magic=0) + gzip_wrapper([b"a", b"b"]))
        until(lambda: tree.exists("/brokers/topics/t/0"))
        send(process, "t", [b"three", b"four"], Codec.GZIP)
        until(lambda: len(payloads_07(broker, "t")) == 6)
        places = read_07(broker, "t")
        how = [
            "-z",
            chroot,
            "--legacy07-zookeeper",
            tree.connect_string,
            "--log-dir",
            f"0={tmp_path / 'legacy'}",
        ]
        runner = CliRunner()

        def convert(*arguments):
            return runner.invoke(command, ["convert", *arguments, *how])

        def commit(position):
            path = "/consumers/g/offsets/t/0-0"
            tree.ensure_path(path)
            tree.set(path, str(position).encode())

        with open_session(chroot) as session:
            # The position of a 0.7 group, and the matching offset: inside a wrapper that of its
            # first message.
            for (_, position), offset in zip([(0, 0), *places], [0, 1, 2, 2, 4, 5, 6], strict=True):
                commit(position)
                done = convert("g", "newer", "--kept-by", "zookeeper")
                assert done.exit_code == 0, done
                assert zk_groups.committed(session, "g") == {("t", 0): offset}
                back = convert("g", "0.7", "--kept-by", "zookeeper")
                assert back.exit_code == 0, back
                assert int(tree.get("/consumers/g/offsets/t/0-0")[0]) == position
            commit(3)
            before = zk_groups.committed(session, "g")
            inside = convert("g", "newer", "--kept-by", "zookeeper")
            assert "is inside a message" in str(inside.exception)
            commit(10**9)
            outside = convert("g", "newer", "--kept-by", "zookeeper")
            assert "it has positions 0 to" in str(outside.exception)
            commit(0)
            dry = convert("g", "newer", "--kept-by", "zookeeper", "--dry-run")
            assert "t partition 0 offset 0 = 0-0 position 0" in dry.output
            assert zk_groups.committed(session, "g") == before
        member = Member07(tree.connect_string, "g", {"t": 1}).start()
        until(lambda: member.owned)
        busy = convert("g", "newer", "--kept-by", "zookeeper")
        assert "has members in the 0.7 registry" in str(busy.exception)
        member.close()
        broker.close()
        checks = list(check_logs([tmp_path / "legacy"]))
        assert [(each.entries, each.findings) for each in checks] == [(5, [])]


def test_invalid_set_closes_connection_and_too_large_message_is_dropped(process, tree):
    broker = Broker07(*broker_address(tree, 0))
    broker.produce("t", 0, entry(b"good"))
    bad = bytearray(entry(b"bad"))
    bad[-1] ^= 1
    broker.produce("t", 0, bytes(bad))
    with pytest.raises((ConnectionError, OSError)):
        broker.offsets("t", 0, -1)
        broker.offsets("t", 0, -1)
    broker = Broker07(*broker_address(tree, 0))
    broker.produce("t", 0, entry(b"large" + bytes(1_000_000)))
    broker.produce("t", 0, entry(bytes(999_999)))
    # A 0.7 produce has no response; the next request is answered after it was handled.
    broker.offsets("t", 0, -1)
    assert [len(each) for each in values(process, "t")] == [4, 999_999]
    assert zlib.crc32(payloads_07_large(broker)) == zlib.crc32(bytes(999_999))
    with pytest.raises((ConnectionError, OSError)):
        broker.produce("t", 1, entry(b"no such partition"))
        broker.offsets("t", 0, -1)
    broker.close()


def payloads_07_large(broker):
    ((_, data),) = broker.multifetch([("t", 0, len(entry(b"good")))], size=2_000_000)
    ((_, _, (payload,)),) = parse(data)
    return payload


@pytest.fixture
def brokers(tmp_path, chroot, tree):
    started = {}
    try:
        for broker_id in (1, 2, 3):
            own = settings(tmp_path / str(broker_id), tree, broker_id)
            own |= {"zookeeper.connect": chroot, "default.replication.factor": "2"}
            started[broker_id] = MortalBroker(tmp_path / str(broker_id), own)
            started[broker_id].start()
        yield started
    finally:
        for process in started.values():
            process.stop()


def leader(brokers, topic, number=0):
    for process in brokers.values():
        if process.alive:
            with contextlib.suppress(Exception), connect(process) as connection:
                answer = connection.request(MetadataRequest(topics=[topic]))
                for each in answer.topics[0].partitions:
                    if each.partition == number:
                        return each
    return None


def test_view_continues_after_leader_change(brokers, tree):
    first = Broker07(*broker_address(tree, 1))
    first.produce("t", 0, entry(b"first"))
    until(lambda: tree.exists("/brokers/topics/t/1"))
    until(lambda: payloads_07(first, "t") == [b"first"])
    found = leader(brokers, "t")
    assert found.leader == 1
    assert len(found.replicas) == 2
    # Another broker has its own partitions in the 0.7 registry.
    second = Broker07(*broker_address(tree, 2))
    second.produce("t", 0, entry(b"at the second"))
    until(lambda: tree.exists("/brokers/topics/t/2"))
    assert broker_partitions(tree, "t") == [(1, 0), (2, 0)]
    until(lambda: payloads_07(second, "t") == [b"at the second"])

    other = next(each for each in found.replicas if each != 1)
    for number in range(10):
        first.produce("t", 0, entry(b"%d" % number))
    until(lambda: len(payloads_07(first, "t")) == 11)
    seen = read_07(first, "t")
    brokers[1].kill()
    until(lambda: (now := leader(brokers, "t")) is not None and now.leader == other)
    # Its partitions vanish for clients of 0.7; newer clients continue.
    until(lambda: tree.exists("/brokers/ids/1") is None)
    send(brokers[other], "t", [b"while it was away"])
    brokers[1].start()
    until(lambda: tree.exists("/brokers/ids/1") and tree.exists("/brokers/topics/t/1"))
    first = Broker07(*broker_address(tree, 1))
    until(lambda: payloads_07(first, "t")[-1] == b"while it was away")
    assert read_07(first, "t")[:11] == seen
    # It is a follower: it forwards sets to the leader, and shows them as they were sent.
    assert leader(brokers, "t").leader == other
    sent = entry(b"through the follower", magic=0) + gzip_wrapper([b"x", b"y"])

    def set_is_shown_as_sent():
        epoch = leader(brokers, "t").leader_epoch
        end = first.offsets("t", 0, -1)[0]
        first.produce("t", 0, sent)
        until(lambda: first.offsets("t", 0, -1)[0] > end and payloads_07(first, "t")[-1] == b"y")
        ((_, data),) = first.multifetch([("t", 0, end)])
        # A set whose leader epoch ends before it is shown is rendered.
        assert data == sent or leader(brokers, "t").leader_epoch != epoch
        return data == sent

    until(set_is_shown_as_sent)
    assert payloads_07(first, "t") == values(brokers[other], "t")
    first.close()
    second.close()


def test_0_7_group_reads_views_of_three_brokers(brokers, tree):
    first = Broker07(*broker_address(tree, 1))
    for broker in (1, 2, 3):
        each = Broker07(*broker_address(tree, broker))
        each.produce("t", 0, entry(b"start %d" % broker))
        until(lambda broker=broker: tree.exists(f"/brokers/topics/t/{broker}"))
        each.close()
    sent = [b"%04d" % number for number in range(300)]
    one = Member07(tree.connect_string, "g", {"t": 1}).start()
    two = Member07(tree.connect_string, "g", {"t": 1}).start()
    produce_07(tree, "t", sent)
    everything = {*sent, *(b"start %d" % broker for broker in (1, 2, 3))}
    until(lambda: {m for *_, m in one.messages + two.messages} == everything)
    two.die()
    until(lambda: len(one.owned) == 3)
    one.close()
    modern = [each for number in range(3) for each in values_anywhere(brokers, "t", number)]
    assert sorted(modern) == sorted(everything)
    first.close()


def values_anywhere(brokers, topic, number):
    return values(brokers[leader(brokers, topic, number).leader], topic, number)
