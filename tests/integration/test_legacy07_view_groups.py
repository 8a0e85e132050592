"""Groups of our 0.7 consumer over views, beside an independent member."""

from tests.support.broker_requests import message_set, produce
from tests.support.brokers import connect
from tests.support.client07 import Broker07, Member07, broker_address, gzip_wrapper
from tests.support.client07 import produce as produce_07
from tests.support.cluster07 import OurMember07, cluster07, commits, ends, make_topic
from tests.support.zookeeper import until
from zkbroker.records import Codec

NAMES = ["0-0", "0-1", "1-0", "1-1"]
SHARED = {"legacy07_share_new_topics": "true"}


def modern(process, topic, partition, bodies):
    """Send what a newer producer sends: compressed, to a partition that this broker leads."""
    with connect(process) as connection:
        data = message_set(2, bodies, Codec.GZIP)
        assert produce(connection, topic, data, partition=partition).error_code == 0


def test_group_splits_views_takes_over_and_continues_from_positions(tmp_path, chroot, tree):
    with cluster07(tmp_path, chroot, tree, **SHARED) as brokers:
        want = {*make_topic(tree, "t")}
        ours = OurMember07(tree.connect_string, "g", {"t": 1})
        until(lambda: ours.owned == {("t", name) for name in NAMES})
        theirs = Member07(tree.connect_string, "g", {"t": 2}).start()
        until(lambda: len(theirs.owned) + len(ours.owned) == 4 and theirs.owned and ours.owned)
        threads = sorted([f"{ours.id}-0", f"{theirs.id}-0", f"{theirs.id}-1"])
        owners = [tree.get(f"/consumers/g/owners/t/{name}")[0].decode() for name in NAMES]
        assert owners == [threads[0], threads[0], threads[1], threads[2]]

        def read():
            return [m.value for m in ours.messages] + [m for *_, m in theirs.messages]

        # Each broker shows its own two partitions; both generations write.
        bodies = [b"%03d" % number for number in range(100)]
        produce_07(tree, "t", bodies)
        for number, process in enumerate(brokers):
            for index in (0, 1):
                sent = [b"newer %d %d %d" % (number, index, each) for each in range(20)]
                modern(process, "t", 2 * number + index, sent)
                want |= {*sent}
        want |= {*bodies}
        until(lambda: {*read()} == want)

        # The foreign member dies with its session: ours takes over, and skips nothing.
        theirs.die()
        until(lambda: len(ours.owned) == 4)
        wrapped = [b"wrapped %d" % number for number in range(5)]
        first = Broker07(*broker_address(tree, 0))
        first.produce("t", 1, gzip_wrapper(wrapped))
        first.close()
        modern(brokers[1], "t", 2, [b"after"])
        want |= {*wrapped, b"after"}
        until(lambda: {*read()} == want)
        assert theirs.resets == 0
        until(lambda: set(ours.connector.positions().values()) == set(ends(tree, "t").values()))
        ours.close()
        assert commits(tree, "g", "t") == ends(tree, "t")

        # A foreign member continues at our commits, and our member at its commits.
        last = [b"last 0", b"last 1"]
        modern(brokers[0], "t", 0, last[:1])
        modern(brokers[1], "t", 3, last[1:])
        member = Member07(tree.connect_string, "g", {"t": 1}).start()
        until(lambda: len(member.messages) >= 2)
        member.close()
        assert sorted(m for *_, m in member.messages) == last
        last = [b"very last 0", b"very last 1"]
        modern(brokers[0], "t", 1, last[:1])
        modern(brokers[1], "t", 2, last[1:])
        ours = OurMember07(tree.connect_string, "g", {"t": 2})
        until(lambda: len(ours.messages) >= 2)
        ours.close()
        assert sorted(m.value for m in ours.messages) == last
        assert commits(tree, "g", "t") == ends(tree, "t")
