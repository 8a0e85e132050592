"""The state of a broker in Prometheus form: ZooKeeper, disks, connections, requests and groups.

    BrokerCollector    counts of requests and replicas (`exposition`)
    StateCollector     the present state of a broker

Invariant: as in `exposition`. The lag of a group is no series: only the leader of a partition knows
its end, and only the coordinator of a group knows its commits. Both are exported under the same
labels, and the difference is computed from all brokers' series (`docker/prometheus`). Series of
groups are bounded by `metrics.group.offsets.max`.
"""

import logging
import shutil
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zkbroker.broker.services import BrokerServices
from zkbroker.coordinator.groups.metrics import GroupMetrics
from zkbroker.network.server.metrics import ServerMetrics
from zkbroker.zookeeper import SessionState

logger = logging.getLogger(__name__)


class StateCollector(Collector):
    """Turns the state of a broker into metric families.

    Args:
        services: the running broker.
        server: returns metrics of its connections.
        groups: returns metrics of its group coordinator, with at most that many committed offsets.
    """

    def __init__(
        self,
        services: BrokerServices,
        server: Callable[[], ServerMetrics],
        groups: Callable[[int], GroupMetrics],
    ) -> None:
        self._services = services
        self._server = server
        self._groups = groups
        self._entered: dict[SessionState, int] = dict.fromkeys(SessionState, 0)
        services.session.on_state(self._state_changed)

    def _state_changed(self, state: SessionState) -> None:
        self._entered[state] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        yield from self._session()
        yield from self._directories()
        yield from self._network()
        yield from self._coordinated()

    def _session(self) -> Iterator[Metric]:
        now = self._services.session.state
        states = GaugeMetricFamily(
            "zkbroker_zookeeper_session_state", "SessionState: 1 for the one it is in",
            labels=["state"],
        )  # fmt: skip
        for state in SessionState:
            states.add_metric([state.value], int(state is now))
        yield states
        for name, bean, state in (
            ("disconnects", "ZooKeeperDisconnectsPerSec", SessionState.SUSPENDED),
            ("expires", "ZooKeeperExpiresPerSec", SessionState.LOST),
        ):
            yield CounterMetricFamily(
                f"zkbroker_zookeeper_{name}", bean, value=self._entered[state]
            )

    def _directories(self) -> Iterator[Metric]:
        services = self._services
        offline = services.logs.offline_dirs()
        yield GaugeMetricFamily(
            "zkbroker_log_offline_log_directory_count", "OfflineLogDirectoryCount",
            value=len(offline),
        )  # fmt: skip
        labels = ["directory"]
        state = GaugeMetricFamily(
            "zkbroker_log_directory_offline", "LogDirectoryOffline", labels=labels
        )
        size = GaugeMetricFamily(
            "zkbroker_log_directory_size_bytes", "Size of the logs in it", labels=labels
        )
        free = GaugeMetricFamily(
            "zkbroker_log_directory_free_bytes", "Free on its file system", labels=labels
        )
        total = GaugeMetricFamily(
            "zkbroker_log_directory_total_bytes", "Size of its file system", labels=labels
        )
        for path, logs in services.logs.by_directory().items():
            state.add_metric([path], int(path in offline))
            if path in offline:
                continue
            size.add_metric([path], sum(log.size_bytes for log in logs.values()))
            try:
                # Off the event loop: a network file system may be slow.
                disk = services.runtime.offload(shutil.disk_usage, path)
            except OSError as error:
                logger.warning("size of disk unknown directory=%s error=%s", path, error)
                continue
            free.add_metric([path], disk.free)
            total.add_metric([path], disk.total)
        yield from (state, size, free, total)

    def _network(self) -> Iterator[Metric]:
        figures = self._server()
        connections = GaugeMetricFamily(
            "zkbroker_connections", "connection-count: those that are open", labels=["listener"]
        )
        for listener, count in figures.connections.items():
            connections.add_metric([listener], count)
        yield connections
        for name, text, total in (
            ("accepted", "Connections that were taken", figures.accepted),
            ("refused", "Connections that a limit refused", figures.refused),
        ):
            yield CounterMetricFamily(f"zkbroker_connections_{name}", text, value=total)
        for name, text, value in (
            ("queue_size", "RequestQueueSize: waiting to be handled", figures.requests_waiting),
            ("handled_now", "Requests that are worked on", figures.requests_handled),
            ("memory_bytes", "Memory of requests above 64 KiB", figures.request_bytes),
        ):
            yield GaugeMetricFamily(f"zkbroker_request_{name}", text, value=value)

    def _coordinated(self) -> Iterator[Metric]:
        figures = self._groups(self._services.config.metrics_group_offsets)
        states = GaugeMetricFamily(
            "zkbroker_groups", "NumGroups: coordinated here, by state", labels=["state"]
        )
        for state, count in figures.states.items():
            states.add_metric([state.name.lower()], count)
        yield states
        committed = GaugeMetricFamily(
            "zkbroker_group_committed_offset",
            "Offset that a group coordinated here has committed",
            labels=["group", "topic", "partition"],
        )
        for group, offsets in figures.committed.items():
            for (topic, partition), offset in offsets.items():
                committed.add_metric([group, topic, str(partition)], offset)
        yield committed
        yield GaugeMetricFamily(
            "zkbroker_groups_left_out",
            "Groups without series, because of metrics.group.offsets.max",
            value=figures.left_out,
        )
