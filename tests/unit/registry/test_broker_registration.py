"""A broker registers itself in ZooKeeper."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.zookeeper import until
from zkbroker.errors import RegistryError
from zkbroker.registry import broker_registration as module
from zkbroker.registry import paths
from zkbroker.registry.broker_registration import (
    BrokerRegistration,
    SessionRecord,
    register_broker,
)
from zkbroker.registry.brokers import BrokerInfo, list_brokers
from zkbroker.zookeeper import BrokerIdInUse

INFO = BrokerInfo(1, "10.0.0.1", 9092)


def owner(session):
    stat = session.exists(paths.broker(1))
    return None if stat is None else stat.ephemeral_owner


def test_session_record_round_trips_and_ignores_damage(tmp_path):
    record = SessionRecord(tmp_path / "session.json")
    assert record.load() is None
    record.save(0x1000ABC)
    assert record.load() == 0x1000ABC
    for text in ("", "{}", '{"session":1}', '{"session":"x"}', '{"session": 5'):
        (tmp_path / "session.json").write_text(text)
        assert record.load() is None


def test_broker_id_of_live_broker_is_refused(server):
    other, ours = InstantSession(server), InstantSession(server)
    register_broker(other, BrokerInfo(1, "10.0.0.2", 9092))
    with pytest.raises(BrokerIdInUse, match=r"in use by a broker at 10\.0\.0\.2:9092.*broker\.id"):
        register_broker(ours, INFO, wait_ms=0)
    with pytest.raises(RegistryError, match="was cancelled"):
        register_broker(ours, INFO, cancelled=lambda: True)
    assert owner(ours) == other.session_id


def test_registration_of_recorded_session_is_replaced(server):
    dead, ours = InstantSession(server), InstantSession(server)
    register_broker(dead, INFO)
    register_broker(ours, INFO, predecessor_session=dead.session_id, wait_ms=0)
    assert owner(ours) == ours.session_id


@pytest.mark.parametrize(
    ("only_here", "listening", "replaced"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_same_address_replaces_registration_only_if_exclusive(
    server, monkeypatch, only_here, listening, replaced
):
    dead, ours = InstantSession(server), InstantSession(server)
    register_broker(dead, INFO)
    monkeypatch.setattr(module, "_only_here", lambda host: only_here)
    if replaced:
        register_broker(ours, INFO, listening=listening, wait_ms=0)
    else:
        with pytest.raises(BrokerIdInUse):
            register_broker(ours, INFO, listening=listening, wait_ms=0)
    assert (owner(ours) == ours.session_id) is replaced


def test_loopback_foreign_and_unknown_addresses_prove_nothing():
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "::1", "192.0.2.1", "no.such."):
        assert not module._only_here(host), host


def test_persistent_registration_node_is_not_replaced(server):
    ours = InstantSession(server)
    ours.create(paths.broker(1), INFO.to_json(), parents=True)
    with pytest.raises(BrokerIdInUse):
        register_broker(ours, INFO, predecessor_session=0, listening=True, wait_ms=0)


def test_broker_registers_again_after_session_loss(session, tmp_path):
    registered = []
    record = SessionRecord(tmp_path / "session.json")
    kept = BrokerRegistration(
        session,
        INFO,
        record=record,
        on_registered=lambda: registered.append(session.session_id),
    )
    kept.start()
    first = session.session_id
    session.expire()
    until(lambda: registered == [first, session.session_id])
    assert owner(session) == session.session_id != first
    until(lambda: record.load() == session.session_id)
    session.delete(paths.broker(1))
    until(lambda: owner(session) == session.session_id)
    kept.close()
    assert 1 not in list_brokers(session)


def test_lost_registration_is_retried_until_id_is_taken(session, other, monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    session.session_timeout_ms = -1000  # no wait for the session of a predecessor
    kept = BrokerRegistration(session, INFO)
    kept.start()
    kept._predecessor = None
    other.delete(paths.broker(1))
    until(lambda: owner(session) == session.session_id)
    kept.close()
    register_broker(other, BrokerInfo(1, "10.0.0.2", 1))
    kept = BrokerRegistration(session, INFO)
    with pytest.raises(BrokerIdInUse):
        kept.start()
