"""A leader that is cut off from ZooKeeper, and from nothing else: its clients find the new one."""

import random

from tests.support.brokers import connect
from tests.support.replicated import eventually, replicated_cluster, time_failover
from zkbroker.protocol.messages import MetadataRequest

TOPIC = "visits"


def test_leader_cut_off_from_zookeeper_returns_the_current_leader(tmp_path):
    with replicated_cluster(tmp_path, {TOPIC: 3}) as world:
        victim = world.victim("cut leader", random.Random(1))
        broker = world.cluster.broker(victim)

        def told():
            with connect(broker) as connection:
                (topic,) = connection.request(MetadataRequest([TOPIC], False)).topics
            return {each.partition: each.leader for each in topic.partitions}

        assert victim in told().values()
        world.network.cut_zookeeper(victim)
        time_failover(world, victim, controlled=False)

        def decided():
            return {number: state.leader for (_, number), state in world.decided().items()}

        assert victim not in decided().values()
        eventually(lambda: told() == decided(), "the broker that is cut off knows it")
        world.network.heal()
        eventually(world.in_sync, "all in sync again")
