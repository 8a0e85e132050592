"""Dynamic settings of brokers: written, notified, watched."""

import pytest

from tests.support.instant_session import children_data
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


def test_broker_settings_are_written_with_notice(session):
    assert broker_config(session, 1) == {}
    set_broker_config(session, 1, {RATE: "5"})
    assert broker_config(session, 1) == {RATE: "5"}
    notices = children_data(session, paths.CONFIG_CHANGES)
    assert notices == [b'{"version":2,"entity_path":"brokers/1"}']


def test_invalid_settings_node_is_refused(session):
    session.create(paths.broker_config(1), b"[]", parents=True)
    with pytest.raises(RegistryError, match="/config/brokers/1 holds no settings"):
        broker_config(session, 1)


def test_default_settings_apply_to_all_brokers(session):
    set_broker_config(session, None, {RATE: "5"})
    assert session.get("/config/brokers/<default>")[0] == (
        b'{"version":1,"config":{"leader.replication.throttled.rate":"5"}}'
    )
    notices = children_data(session, paths.CONFIG_CHANGES)
    assert notices == [b'{"version":2,"entity_path":"brokers/<default>"}']
    assert broker_settings(session, 1) == BrokerSettings({RATE: "5"}, {})


def test_unreadable_default_settings_are_logged_and_ignored(session, caplog):
    set_broker_config(session, 1, {RATE: "5"})
    session.create(paths.broker_config(None), b"[]", parents=True)
    assert broker_settings(session, 1) == BrokerSettings({}, {RATE: "5"})
    assert "/config/brokers/<default> holds no settings" in caplog.text


def test_settings_read_without_zookeeper_fails(session):
    session.suspend()
    with pytest.raises(RegistryError):
        broker_settings(session, 1)


def test_watch_reports_added_changed_and_removed_settings(session):
    seen = []
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
