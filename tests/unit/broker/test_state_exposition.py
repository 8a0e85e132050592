"""The state of a broker in Prometheus form."""

from types import SimpleNamespace

from prometheus_client.core import CollectorRegistry

from zkbroker.broker.state_exposition import StateCollector
from zkbroker.coordinator.groups.group import GroupState
from zkbroker.coordinator.groups.metrics import GroupMetrics
from zkbroker.network.server.metrics import ServerMetrics
from zkbroker.zookeeper import SessionState


class FakeBroker:
    """The parts of a broker that the collector reads."""

    def __init__(self, *directories):
        self.session = self
        self.logs = self
        self.runtime = self
        self.config = SimpleNamespace(metrics_group_offsets=3)
        self.state = SessionState.CONNECTED
        self.offline = {}
        self.directories = directories
        self.limits = []

    def on_state(self, callback):
        self.callback = callback

    def enter(self, state):
        self.state = state
        self.callback(state)

    def offload(self, function, *arguments):
        return function(*arguments)

    def offline_dirs(self):
        return self.offline

    def by_directory(self):
        return {path: {1: SimpleNamespace(size_bytes=5)} for path in self.directories}

    def server(self):
        return ServerMetrics(
            connections={"SSL": 2}, accepted=9, refused=4,
            requests_handled=3, requests_waiting=1, request_bytes=77,
        )  # fmt: skip

    def groups(self, limit):
        self.limits.append(limit)
        states = {GroupState.STABLE: 2, GroupState.DEAD: 0}
        return GroupMetrics(states=states, committed={"g": {("t", 1): 8}}, left_out=1)


def collected(broker):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StateCollector(broker, broker.server, broker.groups))

    def value(name, **labels):
        return registry.get_sample_value(f"zkbroker_{name}", labels)

    return value


def test_session_state_and_losses_are_exposed():
    broker = FakeBroker()
    value = collected(broker)
    assert value("zookeeper_session_state", state="connected") == 1
    broker.enter(SessionState.SUSPENDED)
    broker.enter(SessionState.LOST)
    assert value("zookeeper_session_state", state="connected") == 0
    assert value("zookeeper_session_state", state="lost") == 1
    assert value("zookeeper_disconnects_total") == 1
    assert value("zookeeper_expires_total") == 1


def test_offline_directory_exposes_only_its_state(tmp_path, caplog):
    good, failed, gone = str(tmp_path), "/failed", str(tmp_path / "gone")
    broker = FakeBroker(good, failed, gone)
    broker.offline = {failed: "Input/output error"}
    value = collected(broker)
    assert value("log_offline_log_directory_count") == 1
    assert [value("log_directory_offline", directory=each) for each in (good, failed)] == [0, 1]
    assert value("log_directory_size_bytes", directory=good) == 5
    assert value("log_directory_size_bytes", directory=failed) is None
    assert value("log_directory_free_bytes", directory=good) > 0
    assert value("log_directory_free_bytes", directory=failed) is None
    assert value("log_directory_free_bytes", directory=gone) is None
    assert f"size of disk unknown directory={gone}" in caplog.text


def test_connections_requests_and_groups_are_exposed():
    broker = FakeBroker()
    value = collected(broker)
    assert value("connections", listener="SSL") == 2
    assert value("connections_accepted_total") == 9
    assert value("connections_refused_total") == 4
    assert value("request_queue_size") == 1
    assert value("request_handled_now") == 3
    assert value("request_memory_bytes") == 77
    assert value("groups", state="stable") == 2
    assert value("group_committed_offset", group="g", topic="t", partition="1") == 8
    assert value("groups_left_out") == 1
    assert set(broker.limits) == {3}
