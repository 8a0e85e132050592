import json
from dataclasses import replace

import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import MISSING, LeaderAndIsr, LostLogs, PartitionStates
from zkbroker.registry.state_form import StateForm, declare_form, withdraw_form

KEY = ("t", 0)
NODE = "/brokers/topics/t/partitions/0"
STATE = f"{NODE}/state"
GENUINE = b'{"controller_epoch":7,"leader":2,"version":1,"leader_epoch":5,"isr":[2,1]}'


@pytest.fixture
def server():
    server = new_server()
    server.create("/controller_epoch", b"1")
    server.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,2]}}')
    return server


@pytest.fixture(params=list(StateForm))
def states(request, session):
    return PartitionStates(session, request.param)


@pytest.fixture
def ephemeral(session):
    return PartitionStates(session, StateForm.EPHEMERAL)


@pytest.fixture
def stored(states):
    """The decision of a new partition, in either form."""
    return states.write({KEY: first()}, 0)[KEY]


@pytest.fixture
def decided(ephemeral):
    """The decision of a new partition, in the ephemeral form."""
    return ephemeral.write({KEY: first()}, 0)


@pytest.fixture
def registered(ephemeral, decided):
    """That decision, with its leader registered."""
    ephemeral.register_leader(decided)
    return decided


def first(leader=1, isr=(1, 2)):
    return LeaderAndIsr(leader, 0, isr, 1)


def node_of(server, path):
    data, stat = server.get(path)
    return json.loads(data) if data else None, bool(stat.ephemeral_owner)


def test_new_partition_decision_round_trips(states):
    stored = states.write({KEY: first()}, 0)
    assert stored == {KEY: replace(first(), zk_version=0)}
    assert states.read([KEY, ("t", 1)]) == stored


def test_forms_store_decision_in_different_nodes(server, session):
    PartitionStates(session, StateForm.EPHEMERAL).write({KEY: first()}, 0)
    assert node_of(server, NODE)[0]["isr"] == [1, 2]
    assert STATE not in server.nodes
    PartitionStates(session, StateForm.PERSISTENT).write({("u", 0): first()}, 0)
    assert "/brokers/topics/u" not in server.nodes  # no such topic: no node is created


def test_persistent_form_has_genuine_bytes(server, session):
    PartitionStates(session, StateForm.PERSISTENT).write({KEY: first()}, 0)
    assert server.get(NODE)[0] == b""
    data, stat = server.get(STATE)
    assert data == (b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}')
    assert (stat.version, stat.ephemeral_owner) == (0, 0)


def test_deposed_controller_cannot_write(server, states):
    stored = states.write({KEY: first()}, 0)
    server.set("/controller_epoch", b"2")
    with pytest.raises(ControllerMoved):
        states.write({KEY: replace(stored[KEY], leader=2, leader_epoch=1)}, 0)
    with pytest.raises(ControllerMoved):
        states.write({("t", 1): first()}, 0)
    assert states.read([KEY, ("t", 1)]) == stored


def test_conflicting_decision_is_refused(states, stored):
    newer = replace(stored, leader=2, leader_epoch=1)
    assert states.write({KEY: newer}, 0) == {KEY: replace(newer, zk_version=1)}
    assert states.write({KEY: replace(stored, isr=(1,), leader_epoch=1)}, 0) == {}
    assert states.write({KEY: first()}, 0) == {}, "it exists already"
    assert states.read([KEY])[KEY].leader == 2


def test_refused_decision_does_not_affect_others(states):
    kept = {("t", number): first() for number in range(3)}
    states.write({("t", 1): first()}, 0)
    assert states.write(kept, 0).keys() == {("t", 0), ("t", 2)}


def test_thousand_decisions_need_few_round_trips(session, states):
    many = {("t", number): first() for number in range(1000)}
    states.write(many, 0)
    states.update_isr({k: replace(s, isr=(1,)) for k, s in states.read(many).items()})
    assert session.flights < 12


def test_registration_is_read_only_where_one_exists(session, ephemeral, decided):
    session.asked.clear()
    assert ephemeral.read([KEY]) == decided
    assert STATE not in session.asked
    ephemeral.register_leader(decided)
    session.asked.clear()
    assert ephemeral.read([KEY]) == decided
    assert STATE in session.asked


# -- registrations and ISR changes of the leader


def test_leader_registration_ends_with_session(server, session, ephemeral, decided):
    assert ephemeral.register_leader(decided) == set()
    assert node_of(server, STATE) == (json.loads(first().to_json()), True)
    session.expire()
    assert STATE not in server.nodes
    assert ephemeral.read([KEY]) == decided, "the decision is persistent"
    assert ephemeral.register_leader(decided) == set()
    assert node_of(server, STATE)[1]


def test_replaced_leader_is_not_registered(server, ephemeral, decided):
    ephemeral.write({KEY: replace(decided[KEY], leader=2, leader_epoch=1)}, 0)
    assert ephemeral.register_leader(decided) == {KEY}
    assert STATE not in server.nodes


def test_next_leader_replaces_registration(server, ephemeral, registered):
    other = PartitionStates(InstantSession(server), StateForm.EPHEMERAL)
    moved = ephemeral.write({KEY: replace(registered[KEY], leader=2, leader_epoch=1)}, 0)
    assert other.register_leader(moved) == set()
    assert node_of(server, STATE)[0]["leader"] == 2
    ephemeral.unregister_leader([KEY])
    assert STATE in server.nodes, "it belongs to the new leader"
    assert not ephemeral.update_isr({KEY: replace(registered[KEY], isr=(1,))})[KEY].still_leader
    assert node_of(server, STATE)[0]["leader"] == 2
    other.unregister_leader([KEY])
    assert STATE not in server.nodes


@pytest.mark.parametrize("expired_before", [False, True])
def test_returning_leader_has_registration_of_its_own(
    server, ephemeral, expired_before, registered
):
    session = InstantSession(server)
    other = PartitionStates(session, StateForm.EPHEMERAL)
    moved = ephemeral.write({KEY: replace(registered[KEY], leader=2, leader_epoch=1)}, 0)
    other.register_leader(moved)
    back = ephemeral.write({KEY: replace(moved[KEY], leader=1, leader_epoch=2)}, 0)
    if expired_before:
        session.expire()
    assert ephemeral.register_leader(back) == set()
    if not expired_before:
        session.expire()
    assert node_of(server, STATE)[0]["leader_epoch"] == 2


def test_registration_expiring_during_replacement_is_recreated(server, ephemeral, decided):
    session = InstantSession(server)
    PartitionStates(session, StateForm.EPHEMERAL).register_leader(decided)
    operations = ephemeral._registrations.operations

    def operations_before_expiry(contents):
        found = operations(contents)
        session.expire()
        return found

    ephemeral._registrations.operations = operations_before_expiry
    assert ephemeral.register_leader(decided) == set()
    assert node_of(server, STATE) == (json.loads(first().to_json()), True)


def test_isr_change_updates_registration(server, ephemeral, registered):
    outcome = ephemeral.update_isr({KEY: replace(registered[KEY], isr=(1,))})[KEY]
    assert outcome.written
    assert outcome.state == replace(registered[KEY], isr=(1,), zk_version=1)
    assert node_of(server, STATE)[0]["isr"] == node_of(server, NODE)[0]["isr"] == [1]


def test_repeated_isr_change_succeeds(states, stored):
    states.update_isr({KEY: replace(stored, isr=(1,))})
    again = states.update_isr({KEY: replace(stored, isr=(1,))})[KEY]
    assert again.written
    assert again.state.zk_version == 1


def test_refused_isr_change_returns_current_version(states, stored):
    states.update_isr({KEY: replace(stored, isr=(1,))})
    refused = states.update_isr({KEY: replace(stored, isr=(1, 2))})[KEY]
    assert not refused.written
    assert refused.still_leader
    assert refused.state == replace(stored, isr=(1,), zk_version=1)
    wanted = replace(stored, isr=(1, 2), zk_version=refused.state.zk_version)
    assert states.update_isr({KEY: wanted})[KEY].written


def test_isr_change_of_older_epoch_is_refused(states, stored):
    states.write({KEY: replace(stored, isr=(1,), leader_epoch=1)}, 0)
    outcome = states.update_isr({KEY: replace(stored, isr=(1, 2))})[KEY]
    assert not outcome.written
    assert not outcome.still_leader
    assert states.read([KEY])[KEY].isr == (1,)


def test_isr_change_of_deleted_topic_is_refused(states):
    assert not states.update_isr({KEY: replace(first(), zk_version=0)})[KEY].still_leader


# -- changes between the two forms


def test_ephemeral_form_starts_from_genuine_state(server, ephemeral):
    server.create(STATE, GENUINE, parents=True)
    read = ephemeral.read([KEY])[KEY]
    assert read == LeaderAndIsr(2, 5, (2, 1), 7, zk_version=0)
    stored = ephemeral.write({KEY: replace(read, leader=1, leader_epoch=6)}, 0)
    assert stored[KEY].zk_version == 1
    assert STATE not in server.nodes
    assert ephemeral.read([KEY]) == stored


def test_concurrently_changed_genuine_state_is_kept(server, ephemeral):
    server.create(STATE, GENUINE, parents=True)
    read = ephemeral.read([KEY])[KEY]
    server.set(STATE, GENUINE.replace(b"[2,1]", b"[2]"))
    assert ephemeral.write({KEY: replace(read, leader=1, leader_epoch=6)}, 0) == {}
    assert ephemeral.read([KEY])[KEY].isr == (2,)


def test_registration_does_not_override_decision(server, ephemeral, registered):
    server.set(STATE, GENUINE)
    assert ephemeral.read([KEY]) == registered


def test_epochs_of_previous_release_are_continued(server, ephemeral):
    server.create(NODE, b'{"version":1,"leader_epoch":3}', parents=True)
    assert ephemeral.read([KEY])[KEY] == LeaderAndIsr(-1, 3, (), zk_version=0)


def test_unreadable_state_is_no_decision(server, states):
    server.create(STATE, b"garbage", parents=True)
    assert states.read([KEY]) == {}


def test_persistent_form_takes_over_ephemeral_decision(server, session):
    PartitionStates(session, StateForm.EPHEMERAL).write({KEY: first(isr=(1,))}, 0)
    persistent = PartitionStates(session, StateForm.PERSISTENT)
    read = persistent.read([KEY])[KEY]
    assert read == first(isr=(1,))
    assert read.zk_version == MISSING
    persistent.write({KEY: replace(read, leader_epoch=1)}, 0)
    assert server.get(NODE)[0] == b""
    assert persistent.read([KEY])[KEY].leader_epoch == 1


def test_broker_without_logs_leaves_isrs_with_other_replicas(states):
    followed, alone, leaderless, out = ("t", 1), ("t", 2), ("t", 4), ("t", 5)
    stored = states.write(
        {
            followed: first(2, (2, 1)),
            alone: first(-1, (1,)),
            leaderless: first(-1, (1, 2)),
            out: first(2, (2,)),
        },
        0,
    )
    lost = states.leave_isrs(1, [*stored, ("t", 3)])
    assert lost == LostLogs(others={followed, leaderless, out}, last={alone})
    now = states.read(stored)
    assert now[followed] == replace(stored[followed], isr=(2,), zk_version=1)
    assert now[leaderless] == replace(stored[leaderless], isr=(2,), zk_version=1)
    assert (now[alone], now[out]) == (stored[alone], stored[out])
    assert states.leave_isrs(1, [followed]) == LostLogs({followed}, set())


def test_leader_without_log_leaves_isr_in_new_epoch(server, states):
    stored = states.write({KEY: replace(first(1, (1, 2, 3)), leader_epoch=4)}, 0)[KEY]
    decided = states.read([KEY])[KEY].zxid
    assert states.leave_isrs(1, [KEY]) == LostLogs({KEY}, set())
    now = states.read([KEY])[KEY]
    assert (now.leader, now.leader_epoch, now.isr) == (-1, 5, (2, 3))
    assert (now.controller_epoch, now.zxid) == (stored.controller_epoch, decided)
    # An earlier process of the broker, still alive somewhere, cannot write under the old epoch.
    late = states.update_isr({KEY: replace(stored, isr=(1, 2))})[KEY]
    assert (late.written, late.still_leader) == (False, False)
    # The other replicas leave as well, except for the last.
    assert states.leave_isrs(2, [KEY]) == LostLogs({KEY}, set())
    assert states.leave_isrs(3, [KEY]) == LostLogs(set(), {KEY})
    assert states.read([KEY])[KEY].isr == (3,)


def test_leaving_isr_keeps_decision_time(server, states):
    key = ("t", 1)
    states.write({key: first(2, (2, 1, 3))}, 0)
    decided = states.read([key])[key].zxid
    for leaving in (1, 3):
        assert states.leave_isrs(leaving, [key]) == LostLogs({key}, set())
        assert states.read([key])[key].zxid == decided
    assert server.get(states.watched(key))[1].mzxid > decided
    amended = states.read([key])[key]
    states.write({key: replace(amended, leader_epoch=1)}, 0)
    assert states.read([key])[key].zxid > decided
    assert "decided_zxid" not in node_of(server, states.watched(key))[0]


def test_leaving_isr_is_retried_after_concurrent_change(session, states):
    stored = states.write({KEY: first(2, (2, 1))}, 0)
    other = PartitionStates(InstantSession(session.server), states.form)
    changed = [replace(stored[KEY], isr=(2, 1, 3))]

    def change():
        if changed:
            other.write({KEY: changed.pop()}, 0)

    session.before = change
    assert states.leave_isrs(1, [KEY]) == LostLogs({KEY}, set())
    assert states.read([KEY])[KEY].isr == (2, 3)


def test_last_clean_stop_leaves_genuine_states(server, ephemeral):
    stored = ephemeral.write({KEY: first(), ("t", 1): first(leader=-1, isr=(2,))}, 0)
    ephemeral.register_leader({KEY: stored[KEY]})
    assert ephemeral.leave_persistent([KEY, ("t", 1), ("t", 2)]) == 2
    assert node_of(server, STATE) == (json.loads(first().to_json()), False)
    assert not node_of(server, "/brokers/topics/t/partitions/1/state")[1]
    assert ephemeral.leave_persistent([KEY]) == 0, "it is already persistent"
    # A genuine follower changes only the ISR: on equal epochs its state counts.
    server.set(STATE, GENUINE.replace(b'"leader_epoch":5', b'"leader_epoch":0'))
    assert ephemeral.read([KEY])[KEY].isr == (2, 1)


def test_leader_epochs_are_raised_above_adopted_logs(server, ephemeral):
    server.create(STATE, GENUINE, parents=True)
    decided = server.get(STATE)[1].mzxid
    kept = ephemeral.write({("t", 1): replace(first(), leader_epoch=9)}, 0)[("t", 1)]
    floors = {KEY: 8, ("t", 1): 9, ("t", 2): 4}
    assert ephemeral.raise_epochs(floors) == {KEY: 5, ("t", 2): -1}
    assert ephemeral.read(floors) == {
        KEY: LeaderAndIsr(2, 8, (2, 1), 7, zk_version=1),
        ("t", 1): kept,
        ("t", 2): LeaderAndIsr(-1, 4, (), zk_version=0),
    }
    assert ephemeral.read([KEY])[KEY].zxid == decided, "no controller decided in between"


# -- the form of a cluster


def register(server, broker_id):
    server.create(paths.broker(broker_id), b"{}")


def test_broker_of_other_form_is_refused(server, session):
    declare_form(session, StateForm.EPHEMERAL, 1)
    register(server, 1)
    declare_form(session, StateForm.EPHEMERAL, 2)
    with pytest.raises(RegistryError, match=r"partition\.state\.znodes=ephemeral to join"):
        declare_form(session, StateForm.PERSISTENT, 2)


def test_ephemeral_form_is_refused_beside_genuine_brokers(server, session):
    register(server, 0)
    with pytest.raises(RegistryError, match=r"partition\.state\.znodes=persistent to join"):
        declare_form(session, StateForm.EPHEMERAL, 1)
    declare_form(session, StateForm.PERSISTENT, 1)
    assert server.get(paths.TOPICS)[0] == b""


def test_form_may_change_without_brokers(server, session):
    declare_form(session, StateForm.EPHEMERAL, 1)
    declare_form(session, StateForm.PERSISTENT, 1)
    assert server.get(paths.TOPICS)[0] == b""
    declare_form(session, StateForm.EPHEMERAL, 1)
    withdraw_form(session)
    assert server.get(paths.TOPICS)[0] == b""


def test_own_stale_registration_does_not_fix_form(server, session):
    register(server, 1)
    declare_form(session, StateForm.EPHEMERAL, 1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage",
        b'{"leader":99999999999}',
        b"[" * 100_000,
        GENUINE.replace(b"[2,1]", b"[2,[1]]"),
        GENUINE.replace(b"}", b',"decided_zxid":[]}'),
    ],
)
def test_unreadable_decision_is_reported(server, states, garbage):
    node = NODE if states.form is StateForm.EPHEMERAL else STATE
    server.create(NODE, b"", parents=True) if node == STATE else None
    server.create(node, garbage, parents=True)
    assert states.read([KEY, ("t", 1)]) == {}
    assert states.unreadable == {KEY}
    server.set(node, first().to_json())
    assert KEY in states.read([KEY])
    assert not states.unreadable
