"""Dynamic settings of brokers: written, notified, watched."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.zookeeper import until
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.broker_configs import BrokerConfigWatch, broker_config, set_broker_config

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


def test_a_watch_reports_settings_that_come_change_and_go():
    session, seen = InstantSession(), []
    watch = BrokerConfigWatch(session, 1, seen.append)
    watch.start()
    try:
        assert seen == [{}]
        for settings in ({RATE: "5"}, {RATE: "6"}, {}):
            set_broker_config(session, 1, settings)
            until(lambda wanted=settings: seen[-1] == wanted)
        count = len(seen)
        set_broker_config(session, 2, {RATE: "7"})
        assert seen[-1] == {}
        assert len(seen) == count
    finally:
        watch.close()
