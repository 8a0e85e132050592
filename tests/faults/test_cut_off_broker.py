"""A leader that is cut off from ZooKeeper only: its clients find the new leader."""

import random

from tests.support.brokers import connect
from tests.support.replicated import eventually, replicated_cluster, time_failover
from zkbroker.protocol.messages import MetadataRequest

TOPIC = "visits"


def test_leader_cut_off_from_zookeeper_returns_the_current_leader(tmp_path):
    with replicated_cluster(tmp_path, {TOPIC: 3}) as replicated:
        victim = replicated.victim("cut leader", random.Random(1))
        broker = replicated.cluster.broker(victim)

        def leaders():
            with connect(broker) as connection:
                (topic,) = connection.request(MetadataRequest([TOPIC], False)).topics
            return {each.partition: each.leader for each in topic.partitions}

        # A leader registers before its controller tells it of all leaders.
        eventually(lambda: victim in leaders().values(), "the leader knows that it leads")
        replicated.network.cut_zookeeper(victim)
        time_failover(replicated, victim, controlled=False)

        def decided():
            return {number: state.leader for (_, number), state in replicated.decided().items()}

        assert victim not in decided().values()
        eventually(lambda: leaders() == decided(), "the cut-off broker returns the new leaders")
        replicated.network.heal()
        eventually(replicated.in_sync, "all in sync again")
