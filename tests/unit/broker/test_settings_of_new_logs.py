"""A log that is created while the settings of its topic change gets the new ones."""

from types import SimpleNamespace

import pytest

from tests.support.logs import HookedFileSystem, started
from tests.unit.broker.test_view import topics, view
from zkbroker.broker.topic_settings import TopicSettingsSync
from zkbroker.log import TopicPartition
from zkbroker.replica.log_opening import LogOpening

STATE = SimpleNamespace(leader=1, isr=[1], is_new=True)


class Cluster:
    """A topic with two partitions, and a broker that creates their logs."""

    def __init__(self, manager):
        self.logs = manager
        self.view = view()
        self.settings = TopicSettingsSync(None, manager, self.view)
        self.view.on_topics(self.settings.apply)
        self.opening = LogOpening(1, manager, lambda: 100)

    def set(self, retention_ms):
        assignments = {"t": {0: (1,), 1: (1,)}}
        self.view.set_topics(topics(assignments, {"t": {"retention.ms": str(retention_ms)}}))

    def create(self, number, settings):
        partition = SimpleNamespace(
            key=TopicPartition("t", number), offline=False, has_log=False, open=lambda *_: None
        )
        self.opening.open(partition, STATE, settings)

    @property
    def retention_ms(self):
        return {tp.partition: log.config.retention_ms for tp, log in self.logs.logs().items()}


@pytest.mark.parametrize("created_before", [0, 1])
def test_settings_that_changed_before_a_log_was_created(tmp_path, created_before):
    with started(tmp_path) as manager:
        cluster = Cluster(manager)
        cluster.set(1000)
        # For all logs of a request, which are created one after the other.
        settings = cluster.settings.of({"t"})
        for number in range(created_before):
            cluster.create(number, settings)
        cluster.set(5000)
        cluster.create(created_before, settings)
        assert cluster.retention_ms == dict.fromkeys(range(created_before + 1), 5000)


@pytest.mark.parametrize("created_before", [0, 1])
def test_settings_that_changed_while_a_log_was_created(tmp_path, created_before):
    fs = HookedFileSystem()
    with started(tmp_path, fs=fs) as manager:
        cluster = Cluster(manager)
        cluster.set(1000)
        settings = cluster.settings.of({"t"})
        for number in range(created_before):
            cluster.create(number, settings)
        fs.before["fsync_dir"] = lambda path: cluster.set(5000)
        cluster.create(created_before, settings)
        assert cluster.retention_ms == dict.fromkeys(range(created_before + 1), 5000)


def test_log_keeps_its_settings_if_those_that_came_meanwhile_are_invalid(tmp_path):
    fs = HookedFileSystem()
    with started(tmp_path, fs=fs) as manager:
        cluster = Cluster(manager)
        cluster.set(1000)
        fs.before["fsync_dir"] = lambda path: cluster.set("never")
        cluster.create(0, cluster.settings.of({"t"}))
        assert cluster.retention_ms == {0: 1000}
