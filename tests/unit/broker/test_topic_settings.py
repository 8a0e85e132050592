"""Settings of topics are applied to the logs."""

from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from tests.unit.broker.test_view import topics
from zkbroker.broker.topic_settings import TopicSettingsSync, settings_for_recovery
from zkbroker.errors import ConfigError, RegistryError
from zkbroker.log import TopicPartition
from zkbroker.registry.topics import create_topic


class RecordingLogs:
    def __init__(self, *topics):
        self.applied = []
        self.topics = topics
        self.refuse = False

    def logs(self):
        return {TopicPartition(topic, 0): None for topic in self.topics}

    def update_topic_config(self, topic, settings):
        if self.refuse:
            raise ConfigError("no")
        self.applied.append((topic, dict(settings)))


def seen(**configs):
    return topics({topic: {0: (1,)} for topic in configs}, configs)


def test_only_changes_of_local_logs_are_applied():
    logs = RecordingLogs("a", "b")
    settings = TopicSettingsSync(None, logs, None)
    settings.apply(seen(a={"x": "1"}, b={}, c={"x": "2"}))
    assert sorted(logs.applied) == [("a", {"x": "1"}), ("b", {})]
    logs.applied.clear()
    settings.apply(seen(a={"x": "1"}, b={"y": "1"}))
    assert logs.applied == [("b", {"y": "1"})]


def test_refused_change_is_applied_again():
    logs = RecordingLogs("a")
    settings = TopicSettingsSync(None, logs, None)
    logs.refuse = True
    settings.apply(seen(a={"x": "1"}))
    logs.refuse = False
    settings.apply(seen(a={"x": "1"}))
    assert logs.applied == [("a", {"x": "1"})]


def test_settings_of_a_topic_unknown_to_the_view_are_read():
    session = InstantSession()
    create_topic(session, "new", {0: (1,)}, {"cleanup.policy": "compact"})
    view = SimpleNamespace(topics=seen(old={"x": "1"}))
    settings = TopicSettingsSync(session, RecordingLogs(), view)
    assert settings.of({"old", "new"}) == {"old": {"x": "1"}, "new": {"cleanup.policy": "compact"}}


@pytest.mark.parametrize("away", [True, False])
def test_recovery_continues_without_zookeeper(away):
    def connected():
        if away:
            raise RegistryError("away")
        return InstantSession()

    assert settings_for_recovery(connected, {"t"}) == ({} if away else {"t": {}})
