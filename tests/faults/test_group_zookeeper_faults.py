"""A consumer group while ZooKeeper fails."""

from tests.support.members import Consumer
from tests.support.zookeeper import until
from tests.support.zookeeper_quorum import EmbeddedQuorum
from zkbroker.errors import RegistryError
from zkbroker.rebalance import range_assign, thread_ids
from zkbroker.registry import groups, topics
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

PARTITIONS = 12


def settled(zk, consumers):
    """Whether nodes and members agree with the range assignment."""
    threads = [thread for consumer in consumers for thread in thread_ids(consumer.id, 1)]
    wanted = {n: t for (_, n), t in range_assign({"t": range(PARTITIONS)}, {"t": threads}).items()}
    owned = {number: f"{consumer.id}-0" for consumer in consumers for _, number in consumer.owned}
    paused = any(consumer.member.paused for consumer in consumers)
    try:
        owners = groups.owners(zk, "g", "t")
    except RegistryError:
        # The session of this test may be the one that failed.
        return False
    return not paused and owned == wanted == owners


def start_group(zk, server, members=3, **options):
    """Create the topic, start consumers and wait until the group has settled."""
    topics.create_topic(zk, "t", {n: [1] for n in range(PARTITIONS)})
    consumers = [Consumer(server.connect_string, "g", {"t": 1}, **options) for _ in range(members)]
    until(lambda: settled(zk, consumers))
    return consumers


def test_group_settles_after_every_zookeeper_restart(tmp_path):
    with EmbeddedZooKeeper(tmp_path) as server, ZkSession(server.connect_string) as zk:
        consumers = start_group(zk, server)
        for _ in range(3):
            server.restart()
            for session in (zk, *(consumer.session for consumer in consumers)):
                assert session.wait_connected(60)
            until(lambda: settled(zk, consumers))
        consumers.pop().close()
        until(lambda: settled(zk, consumers))
        for consumer in consumers:
            consumer.close()


def test_group_settles_after_a_zookeeper_pause_beyond_the_session_timeout(
    tmp_path,
):
    with EmbeddedZooKeeper(tmp_path) as server, ZkSession(server.connect_string) as zk:
        consumers = start_group(zk, server, members=2, session_timeout_ms=4000)
        server.pause()
        until(lambda: all(consumer.member.paused for consumer in consumers))
        until(lambda: not any(consumer.session.lease_valid() for consumer in consumers))
        server.resume()
        until(lambda: settled(zk, consumers))
        for consumer in consumers:
            assert "drop" not in consumer.member.log or consumer.session.generation > 0
            consumer.close()


def test_group_survives_the_loss_of_the_quorum_leader():
    with EmbeddedQuorum() as quorum, ZkSession(quorum.connect_string) as zk:
        consumers = start_group(zk, quorum)
        leader = quorum.leader
        assert leader is not None
        leader.kill()
        until(lambda: quorum.leader is not None)
        until(lambda: settled(zk, consumers))
        consumers.pop().close()
        until(lambda: settled(zk, consumers))
        leader.start()
        for consumer in consumers:
            consumer.close()
