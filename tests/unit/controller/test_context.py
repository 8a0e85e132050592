from zkbroker.controller.context import ControllerContext, LiveBroker
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import LeaderAndIsr


def context_of(assignment, leaders, live=(0, 1, 2)):
    context = ControllerContext()
    context.brokers = {b: LiveBroker(BrokerInfo(b, "h", 1), b) for b in live}
    context.assignments = {"t": assignment}
    context.states = {("t", n): LeaderAndIsr(leader, 0, (leader,)) for n, leader in leaders.items()}
    return context


def test_imbalance_counts_live_brokers_above_percentage():
    assignment = {n: (n % 3, (n + 1) % 3) for n in range(30)}
    leaders = {n: n % 3 for n in range(30)}
    leaders[0] = leaders[3] = 1  # 2 of broker 0's 10
    leaders[1] = 2  # 1 of broker 1's 10
    context = context_of(assignment, leaders)
    assert context.imbalanced(10) == [("t", 0), ("t", 3)]
    assert context.imbalanced(20) == []
    assert context.imbalanced(0) == [("t", 0), ("t", 3), ("t", 1)]
    context.shutting_down = {0}
    assert context.imbalanced(10) == []
    context.shutting_down = set()
    context.deleting = {"t"}
    assert context.imbalanced(0) == []


def test_replica_is_online_with_live_broker_and_directory():
    context = context_of({0: (0, 1, 5)}, {0: 0})
    key = ("t", 0)
    assert context.online_replicas(key) == (0, 1)
    context.offline_replicas = {(key, 0)}
    context.shutting_down = {1}
    assert context.online_replicas(key) == (1,)
    assert context.electable(key) == ()
    assert not context.has_leader(key)


def test_topic_setting_overrides_unclean_default():
    context = ControllerContext(unclean_default=True)
    context.configs = {"t": {"unclean.leader.election.enable": "False"}, "u": {}}
    assert not context.unclean("t")
    assert context.unclean("u")
    assert context.unclean("v")


def test_forget_topic_removes_all_its_state():
    context = context_of({0: (0,)}, {0: 0})
    context.reassigning = {("t", 0): (1,)}
    context.offline_replicas = {(("t", 0), 0), (("u", 0), 0)}
    context.deleting = {"t"}
    context.forget_topic("t")
    kept = (context.assignments, context.states, context.reassigning, context.deleting)
    assert not any(kept)
    assert context.offline_replicas == {(("u", 0), 0)}
