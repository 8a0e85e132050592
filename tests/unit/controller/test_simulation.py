"""Controllers of whole clusters on a virtual clock, with random failures.

The simulation checks the safety rules while it runs (`tests.support.simulated_brokers`); the tests
check that the cluster settles after the last failure.
"""

import json

import pytest

from tests.support import soak
from tests.support.simulated_brokers import ControllerSimulation
from zkbroker.registry import paths, topics
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import NodeExists

BROKERS = 4
ALWAYS = ("topic0", "topic1", "topic2")


def make_topic(simulation, name, partitions, factor):
    ids = list(simulation.brokers)
    first = simulation.random.randrange(len(ids))
    assignment = {
        n: [ids[(first + n + r) % len(ids)] for r in range(factor)] for n in range(partitions)
    }
    server = simulation.server
    try:
        server.create(paths.topic_config(name), topics.encode_config({}))
        server.create(paths.topic(name), topics.encode_assignment(assignment))
    except NodeExists:
        pass


def put(server, path, value):
    if path not in server.nodes:
        server.create(path, json.dumps(value).encode())


def random_event(simulation):
    random, server = simulation.random, simulation.server
    broker = random.choice(list(simulation.brokers.values()))
    names = server.children(paths.TOPICS)
    chance = random.random()
    if chance < 0.45:
        if broker.alive and (led := broker.led_partitions()):
            broker.change_isr(random.choice(led), 0.9)
    elif chance < 0.55:
        if broker.alive and sum(each.alive for each in simulation.brokers.values()) > 1:
            broker.kill()
    elif chance < 0.70:
        if not broker.alive:
            broker.start()
    elif chance < 0.76:
        if broker.alive:
            broker.session.break_link(random.uniform(0.1, 12.0))
    elif chance < 0.82:
        if broker.alive and not broker.process.frozen:
            broker.session.freeze(random.uniform(0.1, 12.0))
    elif chance < 0.86:
        if len(names) < 6:
            name = f"topic{random.randrange(20)}"
            make_topic(simulation, name, random.randint(1, 3), random.randint(1, 3))
    elif chance < 0.90 and names:
        name = random.choice(names)
        data = topics.decode_assignment(name, server.get(paths.topic(name))[0])
        replicas = random.sample(list(simulation.brokers), random.randint(1, 3))
        moved = {"topic": name, "partition": random.choice(list(data)), "replicas": replicas}
        put(server, paths.REASSIGN_PARTITIONS, {"version": 1, "partitions": [moved]})
    elif chance < 0.93 and names:
        wanted = [{"topic": name, "partition": 0} for name in names]
        put(server, paths.PREFERRED_REPLICA_ELECTION, {"version": 1, "partitions": wanted})
    elif chance < 0.95 and names:
        name = random.choice(names)
        if name not in ALWAYS and paths.delete_topic(name) not in server.nodes:
            server.create(paths.delete_topic(name))
    elif chance < 0.98:
        controllers = simulation.controllers()
        if controllers:
            simulation.brokers[random.choice(controllers)].request_shutdown(broker.number)
            # It stops even if the shutdown request has failed.
            process = broker.process
            simulation.clock.at(
                simulation.clock.now + random.uniform(0.0, 3.0),
                None,
                lambda: broker.kill() if broker.process is process and broker.alive else None,
            )
    elif paths.CONTROLLER in server.nodes:
        server.delete(paths.CONTROLLER)


def unsettled(simulation):
    """Return what is still wrong; None if all partitions are led and all brokers know it."""
    if len(simulation.controllers()) != 1:
        return f"controllers {simulation.controllers()}"
    if simulation.server.children(paths.DELETE_TOPICS):
        return f"not deleted: {simulation.server.children(paths.DELETE_TOPICS)}"
    for name in simulation.server.children(paths.TOPICS):
        assignment = topics.decode_assignment(name, simulation.server.get(paths.topic(name))[0])
        for number, replicas in assignment.items():
            path = f"{paths.topic(name)}/partitions/{number}"
            path += "/state" if simulation.form is StateForm.PERSISTENT else ""
            if path not in simulation.server.nodes:
                return f"{path} is not decided"
            state = json.loads(simulation.server.get(path)[0])
            if state["leader"] not in simulation.brokers:
                return f"{path} has no leader: {state}"
            for broker in simulation.brokers.values():
                where = f"{name}-{number} at broker {broker.number}: "
                metadata = broker.metadata.get((name, number))
                if metadata is None or metadata.leader != state["leader"]:
                    return f"{where}{metadata} instead of {state}"
                received = broker.partitions.get((name, number))
                if broker.number in replicas and (
                    received is None or received.leader_epoch != state["leader_epoch"]
                ):
                    return f"{where}{received} instead of {state}"
    return None


def run(seed, form, events):
    simulation = ControllerSimulation(seed, BROKERS, form, auto_leader_rebalance=False)
    for name, factor in zip(ALWAYS, (1, 3, 3), strict=True):
        make_topic(simulation, name, 3, factor)
    simulation.run(10.0)
    for _ in range(events):
        simulation.run(simulation.random.expovariate(1.0))
        random_event(simulation)
    # Faults end: dead brokers restart, replicas catch up, requests are carried out.
    simulation.run(30.0)
    for broker in simulation.brokers.values():
        if not broker.alive:
            broker.start()
    for _ in range(60):
        simulation.run(1.0)
        for broker in simulation.brokers.values():
            for key in broker.led_partitions():
                broker.change_isr(key, 1.0)
    if not simulation.run(200.0, lambda: unsettled(simulation) is None):
        raise AssertionError(f"seed {seed} does not settle: {unsettled(simulation)}")
    return simulation


@pytest.mark.parametrize("form", list(StateForm))
@pytest.mark.parametrize("seed", range(12))
def test_cluster_settles_after_random_failures(seed, form):
    simulation = run(seed, form, events=120)
    assert simulation.elections > 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", list(StateForm))
def test_cluster_settles_after_many_random_failures(form):
    for seed in soak.seeds(1000, 200):
        run(seed, form, events=200)
