"""Our controller takes over state nodes of genuine clusters, and leaves the same kind of nodes.

The trees are the dumps of recorded clusters: nodes, their kind, their data version and their data.
"""

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_controller_sequence import DATA, RUNS, Replay
from tests.support.controlled_cluster import ControlledCluster
from tests.support.instant_session import InstantSession
from tests.support.recorded_frames import case
from tests.support.recorded_story import read_story
from zkbroker.registry import paths
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm

TREES = ("0.8.2.2", "2.3.0", "2.3.0-ibp2.1")
_NODE = re.compile(r"([EP]) v(\d+) (/\S*)(?:  ->  (.*))?$")
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state$")


@dataclass(frozen=True)
class Node:
    ephemeral: bool
    version: int
    data: bytes


Tree = dict[str, Node]


def trees(path: Path) -> dict[str, Tree]:
    """Return the full dumps of a recorded run by the step before them."""
    found: dict[str, Tree] = {}
    full = ""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if line.startswith("== after "):
                full = line.split()[2]
            elif (node := _NODE.match(line.rstrip("\n"))) is not None:
                data = (node[4] or "").encode()
                kept = found.setdefault(full, {})
                kept[node[3]] = Node(node[1] == "E", int(node[2]), data)
    return found


def last_tree(run: str) -> Tree:
    return trees(DATA / f"znodes-{run}.txt.gz")["z"]


def states_of(tree: Tree) -> dict[Key, LeaderAndIsr]:
    """Return the decisions in a tree, each with the version of its node."""
    found = {}
    for path, node in tree.items():
        if state := _STATE.match(path):
            stored = json.loads(node.data)
            leader, epoch, isr = stored["leader"], stored["leader_epoch"], tuple(stored["isr"])
            key = state[1], int(state[2])
            found[key] = LeaderAndIsr(leader, epoch, isr, stored["controller_epoch"], node.version)
    return found


def plant(cluster: ControlledCluster, tree: Tree) -> None:
    """Create the persistent nodes of a recorded tree in a server."""
    server = cluster.server
    for path, node in sorted(tree.items()):
        if path == "/" or node.ephemeral:
            continue
        if path not in server.nodes:
            server.create(path, parents=True)
        server.nodes[path].data = node.data
        server.nodes[path].version = node.version
        server.nodes[path].stat = None


def at_rest(run: str, form: StateForm) -> ControlledCluster:
    """Return a cluster without live brokers and with the tree of a genuine one."""
    cluster = ControlledCluster(form)
    plant(cluster, last_tree(run))
    cluster.epoch = int(last_tree(run)[paths.CONTROLLER_EPOCH].data)
    return cluster


@pytest.mark.parametrize("form", list(StateForm))
@pytest.mark.parametrize("run", TREES)
def test_genuine_states_are_read(run: str, form: StateForm) -> None:
    cluster = at_rest(run, form)
    genuine = states_of(last_tree(run))
    assert len(genuine) >= 6
    found = cluster.states.read(genuine)
    for key, state in genuine.items():
        read = found[key]
        assert read.to_json() == last_tree(run)[paths.partition_state(*key)].data, "the same bytes"
        if form is StateForm.PERSISTENT:
            assert read.zk_version == state.zk_version
    assert cluster.states.unreadable == set()


@pytest.mark.parametrize("form", list(StateForm))
@pytest.mark.parametrize("run", TREES)
def test_controller_continues_from_genuine_states(run: str, form: StateForm) -> None:
    cluster = at_rest(run, form)
    genuine = states_of(last_tree(run))
    before = cluster.epoch
    last = {state.leader for state in genuine.values()} - {-1}
    first = max(last)
    cluster.start(first)
    cluster.elect_controller()
    for key, state in genuine.items():
        now = cluster.state(key)
        if first in state.isr:
            # Only the broker that stopped last has every message, and may lead.
            assert (now.leader, now.isr) == (first, (first,)), key
            assert now.leader_epoch == state.leader_epoch + 1, "messages of that epoch are there"
            assert now.controller_epoch == before + 1
        else:
            assert now.leader_epoch in (state.leader_epoch, state.leader_epoch + 1)
            assert set(now.isr) <= set(state.isr)
        path = paths.partition_state if form is StateForm.PERSISTENT else paths.partition
        node = cluster.server.nodes[path(*key)]
        assert not node.owner
        if form is StateForm.PERSISTENT and first in state.isr:
            assert node.version == state.zk_version + 1
            assert not cluster.server.nodes[paths.partition(*key)].data
    for broker in {0, 1, 2} - {first}:
        cluster.start(broker)
    cluster.settle()
    for key, state in genuine.items():
        if first in state.isr:
            isr = cluster.term.context.replicas(key)
            cluster.change_isr(key, *isr)
            grown = cluster.state(key)
            assert set(grown.isr) == set(isr)
            assert grown.leader_epoch == state.leader_epoch + 1, "a leader's change keeps the epoch"


@pytest.mark.parametrize("run", TREES)
def test_last_broker_leaves_genuine_states(run: str) -> None:
    cluster = at_rest(run, StateForm.EPHEMERAL)
    genuine = states_of(last_tree(run))
    first = max({state.leader for state in genuine.values()} - {-1})
    cluster.start(first)
    cluster.elect_controller()
    broker = PartitionStates(cluster.sessions[first], StateForm.EPHEMERAL)
    led = {key: cluster.state(key) for key in genuine if cluster.state(key).leader == first}
    assert broker.register_leader(led) == set()
    assert broker.leave_persistent(genuine) == len(genuine)
    cluster.kill(first)
    persistent = PartitionStates(InstantSession(cluster.server), StateForm.PERSISTENT)
    for key, state in persistent.read(genuine).items():
        node = cluster.server.nodes[paths.partition_state(*key)]
        assert not node.owner
        theirs = json.loads(last_tree(run)[paths.partition_state(*key)].data)
        ours = json.loads(node.data)
        assert list(ours) == list(theirs), "the same fields in the same order"
        assert (ours["version"], ours["isr"]) == (theirs["version"], theirs["isr"])
        if first in theirs["isr"]:
            assert (ours["leader"], state.leader) == (first, first), (
                "the last broker stays the leader"
            )
    assert b" " not in node.data


def test_controller_leaves_genuine_trees() -> None:
    """Play the recorded steps, and compare the trees node by node at each full dump."""
    run = "2.3.0"
    replay = Replay(RUNS[run])
    dumps = trees(DATA / f"znodes-{run}.txt.gz")
    compared = []
    for each in read_story(DATA / f"sequence-{run}.txt.gz"):
        replay.play(each)
        if each.name in ("a5", "e2", "z"):
            compared.append(each.name)
            with case(each.name):
                assert_same_tree(replay.cluster.server.nodes, dumps[each.name])
    assert compared == ["a5", "e2", "z"]


def assert_same_tree(nodes: dict[str, Any], genuine: Tree) -> None:
    compared = ("/brokers/topics", "/config/topics", "/admin")
    ours = {path for path in nodes if path.startswith(compared)}
    assert ours == {path for path in genuine if path.startswith(compared)}
    for path in ours:
        assert bool(nodes[path].owner) == genuine[path].ephemeral
        if nodes[path].data == genuine[path].data:
            continue
        now, then = json.loads(nodes[path].data), json.loads(genuine[path].data)
        if _STATE.match(path):
            # `test_controller_sequence` explains the differences of leader epochs.
            assert list(now) == list(then)
            assert (now["leader"], now["isr"]) == (then["leader"], then["isr"]), path
            assert now["controller_epoch"] >= then["controller_epoch"], path
        else:
            assert now == then, path
