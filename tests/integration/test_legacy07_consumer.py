"""Our stream consumer in groups of a 0.7 cluster, beside an independent client."""

import contextlib

import pytest

from tests.support.client07 import (
    Broker07,
    Member07,
    broker_address,
    entry,
    gzip_wrapper,
    parse,
    produce,
)
from tests.support.cluster07 import OurMember07, cluster07, commits, ends, make_topic
from tests.support.legacy07 import unpack, znodes
from tests.support.zookeeper import until
from zkbroker.consumer import EARLIEST_TIME, Blacklist, Consumer, ConsumerTimeout, Whitelist
from zkbroker.errors import OffsetOutOfRange
from zkbroker.legacy07.consumer_config import ConsumerConfig07
from zkbroker.types import Partition07


def payloads(member):
    return [message.value for message in member.messages]


def test_own_and_foreign_member_share_group_and_take_over(pair07, topic07):
    sent = make_topic(pair07, topic07)
    bodies = [b"%05d" % n for n in range(600)]
    produce(pair07, topic07, bodies[:200])
    ours = OurMember07(pair07.connect_string, topic07, {topic07: 1})
    until(lambda: len(ours.messages) == 202)
    names = sorted(["0-0", "0-1", "1-0", "1-1"])
    assert ours.owned == {(topic07, name) for name in names}
    theirs = Member07(pair07.connect_string, topic07, {topic07: 2}).start()
    until(lambda: len(theirs.owned) + len(ours.owned) == 4 and theirs.owned and ours.owned)
    threads = sorted([f"{ours.id}-0", f"{theirs.id}-0", f"{theirs.id}-1"])
    owners = [
        pair07.get(f"/consumers/{topic07}/owners/{topic07}/{name}")[0].decode() for name in names
    ]
    assert owners == [threads[0], threads[0], threads[1], threads[2]]
    produce(pair07, topic07, bodies[200:400], seed=1)
    want = {*sent, *bodies[:400]}
    until(lambda: {*payloads(ours), *(m for *_, m in theirs.messages)} == want)
    # The foreign member dies with its session; ours takes its partitions over.
    theirs.die()
    until(lambda: len(ours.owned) == 4)
    produce(pair07, topic07, bodies[400:], seed=2)
    want |= {*bodies[400:]}
    until(lambda: {*payloads(ours), *(m for *_, m in theirs.messages)} == want)
    assert theirs.resets == 0
    # A foreign member continues at our commits: no message is skipped or repeated.
    until(lambda: set(ours.connector.positions().values()) == set(ends(pair07, topic07).values()))
    ours.close()
    assert commits(pair07, topic07, topic07) == ends(pair07, topic07)
    after = Member07(pair07.connect_string, topic07, {topic07: 1}).start()
    until(lambda: len(after.owned) == 4)
    produce(pair07, topic07, [b"last"], seed=3)
    until(lambda: after.messages)
    assert [m for *_, m in after.messages] == [b"last"]
    after.close()


def test_partition_order_is_kept_across_takeover(pair07, topic07):
    make_topic(pair07, topic07)
    one = OurMember07(pair07.connect_string, topic07, {topic07: 1})
    two = OurMember07(pair07.connect_string, topic07, {topic07: 1})
    until(lambda: len(one.owned) == len(two.owned) == 2)
    brokers = [Broker07(*broker_address(pair07, n)) for n in range(2)]
    for n in range(300):
        for broker, connection in enumerate(brokers):
            for number in range(2):
                body = b"%d-%d %d" % (broker, number, n)
                connection.produce(topic07, number, entry(body))
        if n == 100:
            two.close()
    until(lambda: len(one.owned) == 4)
    read = lambda: payloads(one) + payloads(two)  # noqa: E731
    until(lambda: len(read()) >= 1202)
    for name in (b"0-0", b"0-1", b"1-0", b"1-1"):
        for member in (one, two):
            numbers = [int(m.split()[1]) for m in payloads(member) if m.startswith(name + b" ")]
            assert numbers == sorted(numbers)
        assert {m for m in read() if m.startswith(name + b" ")} == {
            name + b" %d" % n for n in range(300)
        }
    one.close()
    for connection in brokers:
        connection.close()


def test_partitions_are_assigned_in_text_order_with_ten_brokers(tmp_path, chroot, tree):
    """10-0 comes before 3-0; only the registry decides, without requests to brokers."""
    with cluster07(tmp_path, chroot, tree, brokers=1):
        address = tree.get("/brokers/ids/0")[0]
        for number in (3, 10):
            tree.create(f"/brokers/ids/{number}", address, ephemeral=True, makepath=True)
            tree.create(f"/brokers/topics/t/{number}", b"1", ephemeral=True, makepath=True)
        ours = OurMember07(tree.connect_string, "g", {"t": 1}, consumerid="a")
        theirs = Member07(tree.connect_string, "g", {"t": 1})
        until(lambda: len(ours.owned) == 2)
        theirs.start()
        until(lambda: ours.owned == {("t", "10-0")})
        until(lambda: set(theirs.owned) == {("t", "3-0")})
        theirs.close()
        until(lambda: len(ours.owned) == 2)
        ours.close()


def test_positions_of_genuine_group_stay_valid_on_adopted_directory(tmp_path, chroot, tree):
    (tmp_path / "b0").mkdir()
    unpack(tmp_path, "kafka-0.7.2-more/wire").rename(tmp_path / "b0" / "legacy")
    genuine = znodes("kafka-0.7.2-2-two-consumers-in-a-group.txt")
    committed = {
        path.rpartition("/")[2]: int(value)
        for path, (_, value) in genuine.items()
        if path.startswith("/consumers/g07-grp/offsets/") and value is not None
    }
    for name, position in committed.items():
        path = f"/consumers/g07-grp/offsets/g07g/{name}"
        tree.create(path, b"%d" % position, makepath=True)
    with cluster07(tmp_path, chroot, tree, brokers=1, num_partitions=4):
        ours = OurMember07(tree.connect_string, "g07-grp", {"g07g": 2})
        end = ends(tree, "g07g")
        until(lambda: {str(p): at for (_, p), at in ours.connector.positions().items()} == end)
        for name, position in committed.items():
            log = tmp_path / "b0" / "legacy" / f"g07g-{name[-1]}" / f"{0:020d}.kafka"
            rest = parse(log.read_bytes()[position:])
            mine = [m.value for m in ours.messages if str(m.partition) == name]
            assert mine == [each for _, _, inner in rest for each in inner]
        assert ours.messages
        ours.close()
        assert commits(tree, "g07-grp", "g07g") == end


def test_commit_inside_wrapper_repeats_wrapper_and_skips_nothing(single07, topic07):
    broker = Broker07(*broker_address(single07, 0))
    plain, wrapper = entry(b"plain"), gzip_wrapper([b"a", b"b", b"c"])
    broker.produce(topic07, 0, plain + wrapper)
    until(lambda: single07.exists(f"/brokers/topics/{topic07}/0"))
    config = ConsumerConfig07(
        group_id=topic07, zookeeper_connect=single07.connect_string, autocommit_enable=False
    )
    start, end = len(plain), len(plain + wrapper)
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams({topic07: 1})[topic07]
        read = [next(stream) for _ in range(3)]
        assert [(m.value, m.offset) for m in read] == [
            (b"plain", start),
            (b"a", start),
            (b"b", start),
        ]
        assert {type(m.partition) for m in read} == {Partition07}
        connector.commit_offsets()
    assert commits(single07, topic07, topic07) == {"0-0": start}
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams({topic07: 1})[topic07]
        assert [next(stream).value for _ in range(3)] == [b"a", b"b", b"c"]
        connector.commit_offsets()
        assert commits(single07, topic07, topic07) == {"0-0": end}
        connector.rewind(EARLIEST_TIME)
        assert next(stream).value == b"plain"
    broker.close()


def test_topic_filters_are_registered_in_0_7_format(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree, brokers=1):
        white = OurMember07(tree.connect_string, "w", Whitelist("a.*,b"))
        black = OurMember07(tree.connect_string, "k", Blacklist("a.*|b"))
        assert tree.get(f"/consumers/w/ids/{white.id}")[0] == b"*1*a.*|b"
        assert tree.get(f"/consumers/k/ids/{black.id}")[0] == b"!1!a.*|b"
        static = OurMember07(tree.connect_string, "s", {"ab": 2, "c": 1})
        assert tree.get(f"/consumers/s/ids/{static.id}")[0] == b'{ "ab": 2,"c": 1 }'
        broker = Broker07(*broker_address(tree, 0))
        for topic in ("ab", "b", "c"):
            broker.produce(topic, 0, entry(topic.encode()))
        until(lambda: sorted(payloads(white)) == [b"ab", b"b"])
        until(lambda: payloads(black) == [b"c"])
        until(lambda: sorted(payloads(static)) == [b"ab", b"c"])
        for member in (white, black, static):
            member.close()
        broker.close()


def test_partitions_follow_killed_and_restarted_broker(pair07, topic07):
    sent = make_topic(pair07, topic07)
    ours = OurMember07(pair07.connect_string, topic07, {topic07: 1}, autocommit_interval_ms=100)
    until(lambda: len(ours.messages) == 2)
    pair07.brokers[1].kill()
    until(lambda: {name for _, name in ours.owned} == {"0-0", "0-1"})
    broker = Broker07(*broker_address(pair07, 0))
    broker.produce(topic07, 1, entry(b"meanwhile"))
    until(lambda: b"meanwhile" in payloads(ours))
    pair07.brokers[1].start()
    until(lambda: {name for _, name in ours.owned} == {"0-0", "0-1", "1-0", "1-1"})
    broker.close()
    broker = Broker07(*broker_address(pair07, 1))
    broker.produce(topic07, 0, entry(b"again"))
    until(lambda: b"again" in payloads(ours))
    assert sorted(payloads(ours)) == sorted([*sent, b"meanwhile", b"again"])
    ours.close()
    broker.close()


def test_position_outside_log_is_reset_by_setting(single07, topic07):
    make_topic(single07, topic07, brokers=1)
    for group in ("small", "large", "fail"):
        single07.create(f"/consumers/{group}/offsets/{topic07}/0-0", b"99999", makepath=True)
    small = OurMember07(single07.connect_string, "small", {topic07: 1})
    until(lambda: payloads(small) == [b"first-0"])
    large = OurMember07(single07.connect_string, "large", {topic07: 1}, autooffset_reset="largest")
    until(lambda: set(large.connector.positions().values()) == {ends(single07, topic07)["0-0"]})
    produce(single07, topic07, [b"new"])
    until(lambda: payloads(large) == [b"new"])
    for member in (small, large):
        member.close()
    config = ConsumerConfig07(
        group_id="fail",
        zookeeper_connect=single07.connect_string,
        autooffset_reset="fail",
        consumer_timeout_ms=120_000,
    )
    with Consumer.create(config) as connector:
        (stream,) = connector.create_message_streams({topic07: 1})[topic07]
        with pytest.raises(OffsetOutOfRange, match="no offset 99999") as raised:
            next(stream)
        assert (raised.value.earliest, raised.value.latest) == (0, ends(single07, topic07)["0-0"])


def test_idle_stream_times_out_and_lag_is_reported(single07, topic07):
    make_topic(single07, topic07, brokers=1)
    config = ConsumerConfig07(
        group_id=topic07,
        zookeeper_connect=single07.connect_string,
        consumer_timeout_ms=500,
        fetcher_backoff_ms=20,
    )
    with Consumer.create(config, runtime="gevent") as connector:
        (stream,) = connector.create_message_streams({topic07: 1})[topic07]
        read = []

        def first_is_read():
            # On a busy machine it may come after the time-out.
            with contextlib.suppress(ConsumerTimeout):
                read.append(next(stream).value)
            return read

        until(first_is_read)
        assert read == [b"first-0"]
        with pytest.raises(ConsumerTimeout):
            next(stream)
        until(lambda: connector.lag() == {(topic07, Partition07(0, 0)): 0})
        until(lambda: connector.metrics()["fetches"] > 1)
