"""Dynamic settings of brokers: written, notified, watched."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.zookeeper import until
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.broker_configs import (
    BrokerConfigWatch,
    BrokerSettings,
    broker_config,
    broker_settings,
    set_broker_config,
)

RATE = "leader.replication.throttled.rate"


def test_what_is_set_is_read_and_notified():
    session = InstantSession()
    assert broker_config(session, 1) == {}
    set_broker_config(session, 1, {RATE: "5"})
    assert broker_config(session, 1) == {RATE: "5"}
    (note,) = session.children(paths.CONFIG_CHANGES)
    assert session.get(f"{paths.CONFIG_CHANGES}/{note}")[0] == (
        b'{"version":2,"entity_path":"brokers/1"}'
    )


def test_a_node_that_holds_something_else_is_refused():
    session = InstantSession()
    session.ensure_path(paths.broker_config(1))
    session.set(paths.broker_config(1), b"[]")
    with pytest.raises(RegistryError, match="/config/brokers/1 holds no settings"):
        broker_config(session, 1)


def test_all_brokers_have_settings_too():
    session = InstantSession()
    set_broker_config(session, None, {RATE: "5"})
    assert session.get("/config/brokers/<default>")[0] == (
        b'{"version":1,"config":{"leader.replication.throttled.rate":"5"}}'
    )
    (note,) = session.children(paths.CONFIG_CHANGES)
    assert session.get(f"{paths.CONFIG_CHANGES}/{note}")[0] == (
        b'{"version":2,"entity_path":"brokers/<default>"}'
    )
    assert broker_settings(session, 1) == BrokerSettings({RATE: "5"}, {})


def test_a_node_that_is_unreadable_is_named_and_has_no_settings(caplog):
    session = InstantSession()
    set_broker_config(session, 1, {RATE: "5"})
    session.ensure_path(paths.broker_config(None))
    session.set(paths.broker_config(None), b"[]")
    assert broker_settings(session, 1) == BrokerSettings({}, {RATE: "5"})
    assert "/config/brokers/<default> holds no settings" in caplog.text


def test_settings_that_a_genuine_broker_wrote_are_read():
    session = InstantSession()
    session.ensure_path(paths.broker_config(0))
    session.set(
        paths.broker_config(0),
        b'{"version":1,"config":{"message.max.bytes":"900000","log.cleaner.threads":"2"}}',
    )
    session.ensure_path(paths.broker_config(None))
    session.set(paths.broker_config(None), b'{"version":1,"config":{"background.threads":"9"}}')
    assert broker_settings(session, 0) == BrokerSettings(
        {"background.threads": "9"}, {"message.max.bytes": "900000", "log.cleaner.threads": "2"}
    )


def test_without_zookeeper_there_is_an_error_and_not_an_empty_answer():
    session = InstantSession()
    session.suspend()
    with pytest.raises(RegistryError):
        broker_settings(session, 1)


def test_a_watch_reports_settings_that_come_change_and_go():
    session, seen = InstantSession(), []
    watch = BrokerConfigWatch(session, 1, seen.append)
    watch.start()
    try:
        assert seen == [BrokerSettings()]
        for settings in ({RATE: "5"}, {RATE: "6"}, {}):
            for own in (True, False):
                set_broker_config(session, 1 if own else None, settings)
                until(lambda own=own, wanted=settings: _part(seen[-1], own=own) == wanted)
        count = len(seen)
        set_broker_config(session, 2, {RATE: "7"})
        assert seen[-1] == BrokerSettings()
        assert len(seen) == count
    finally:
        watch.close()


def _part(settings, *, own):
    return settings.own if own else settings.of_all
