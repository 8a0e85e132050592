"""Whole clusters on a virtual clock: random failures, and what must hold all the same.

What is never allowed is checked by the world while it runs (`tests.support.simulated_brokers`);
the tests check what must come about when it is quiet again.
"""

import json

import pytest

from tests.support import soak
from tests.support.simulated_brokers import World
from zkbroker.registry import paths, topics
from zkbroker.registry.state_form import StateForm
from zkbroker.zookeeper import NodeExists

BROKERS = 4
ALWAYS = ("topic0", "topic1", "topic2")


def make_topic(world, name, partitions, factor):
    ids = list(world.brokers)
    first = world.random.randrange(len(ids))
    assignment = {
        n: [ids[(first + n + r) % len(ids)] for r in range(factor)] for n in range(partitions)
    }
    server = world.server
    try:
        server.create(paths.topic_config(name), topics.encode_config({}))
        server.create(paths.topic(name), topics.encode_assignment(assignment))
    except NodeExists:
        pass


def put(server, path, value):
    if path not in server.nodes:
        server.create(path, json.dumps(value).encode())


def random_event(world):
    random, server = world.random, world.server
    broker = random.choice(list(world.brokers.values()))
    names = server.children(paths.TOPICS)
    chance = random.random()
    if chance < 0.45:
        if broker.alive and (led := broker.led()):
            broker.change_isr(random.choice(led), 0.9)
    elif chance < 0.55:
        if broker.alive and sum(each.alive for each in world.brokers.values()) > 1:
            broker.kill()
    elif chance < 0.70:
        if not broker.alive:
            broker.start()
    elif chance < 0.76:
        if broker.alive:
            broker.session.break_link(random.uniform(0.1, 12.0))
    elif chance < 0.82:
        if broker.alive and not broker.process.frozen:
            process, session = broker.process, broker.session
            world.clock.freeze(process)
            session.hearing_changed()

            def thaw():
                if not process.dead:
                    process.frozen = False
                    session.thawed()
                    world.clock.resume(process)

            world.clock.at(world.clock.now + random.uniform(0.1, 12.0), None, thaw)
    elif chance < 0.86:
        if len(names) < 6:
            name = f"topic{random.randrange(20)}"
            make_topic(world, name, random.randint(1, 3), random.randint(1, 3))
    elif chance < 0.90 and names:
        name = random.choice(names)
        data = topics.decode_assignment(name, server.get(paths.topic(name))[0])
        replicas = random.sample(list(world.brokers), random.randint(1, 3))
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
        controllers = world.controllers()
        if controllers:
            world.brokers[random.choice(controllers)].ask_for_shutdown(broker.number)
            # It leaves, whatever became of what it asked for.
            life = broker.process
            world.clock.at(
                world.clock.now + random.uniform(0.0, 3.0),
                None,
                lambda: broker.kill() if broker.process is life and broker.alive else None,
            )
    elif paths.CONTROLLER in server.nodes:
        server.delete(paths.CONTROLLER)


def unsettled(world):
    """Why the cluster is not as it should be: led as far as can be, and every broker knows it."""
    if len(world.controllers()) != 1:
        return f"controllers {world.controllers()}"
    if world.server.children(paths.DELETE_TOPICS):
        return f"not deleted: {world.server.children(paths.DELETE_TOPICS)}"
    for name in world.server.children(paths.TOPICS):
        assignment = topics.decode_assignment(name, world.server.get(paths.topic(name))[0])
        for number, replicas in assignment.items():
            path = f"{paths.topic(name)}/partitions/{number}"
            path += "/state" if world.persistent else ""
            if path not in world.server.nodes:
                return f"{path} is not decided"
            state = json.loads(world.server.get(path)[0])
            if state["leader"] not in world.brokers:
                return f"{path} has no leader: {state}"
            for broker in world.brokers.values():
                where = f"{name}-{number} at broker {broker.number}: "
                metadata = broker.metadata.get((name, number))
                if metadata is None or metadata.leader != state["leader"]:
                    return f"{where}{metadata} instead of {state}"
                told = broker.partitions.get((name, number))
                if broker.number in replicas and (
                    told is None or told.leader_epoch != state["leader_epoch"]
                ):
                    return f"{where}{told} instead of {state}"
    return None


def run(seed, form, events):
    world = World(seed, BROKERS, form, auto_leader_rebalance=False)
    for name, factor in zip(ALWAYS, (1, 3, 3), strict=True):
        make_topic(world, name, 3, factor)
    world.run(10.0)
    for _ in range(events):
        world.run(world.random.expovariate(1.0))
        random_event(world)
    # Faults end: the dead come back, replicas catch up, what was asked for is carried out.
    world.run(30.0)
    for broker in world.brokers.values():
        if not broker.alive:
            broker.start()
    for _ in range(60):
        world.run(1.0)
        for broker in world.brokers.values():
            for key in broker.led():
                broker.change_isr(key, 1.0)
    if not world.run(200.0, lambda: unsettled(world) is None):
        raise AssertionError(f"seed {seed} does not settle: {unsettled(world)}")
    return world


@pytest.mark.parametrize("form", list(StateForm))
@pytest.mark.parametrize("seed", range(25))
def test_random_failures_never_give_an_epoch_two_leaders_and_all_is_led_in_the_end(seed, form):
    world = run(seed, form, events=120)
    assert world.elections > 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", list(StateForm))
def test_many_random_failures(form):
    for seed in soak.seeds(1000, 200):
        run(seed, form, events=200)
