"""Copying of replicas: by this broker's fetchers from leaders, and by followers from this broker.

Invariant: each direction has its own throttle, with the rate in `/config/brokers/[id]`.
"""

from collections.abc import Mapping

from zkbroker.broker.dialing import Dialing, Line
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.dynamic import FOLLOWER_RATE, LEADER_RATE
from zkbroker.errors import NetworkError
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.fetching import FetcherSettings
from zkbroker.replica.throttle import ReplicationThrottle
from zkbroker.runtime import Runtime


class ReplicaCopying:
    """The fetchers of a broker, and the throttles of both directions."""

    def __init__(
        self,
        config: BrokerConfig,
        dialing: Dialing,
        broker_id: int,
        view: ClusterView,
        *,
        runtime: Runtime,
    ) -> None:
        self._dialing = dialing
        self._config = config
        self._broker_id = broker_id
        self._view = view
        self._runtime = runtime
        self.leader_throttle = self._throttle()
        """The throttle of fetches by followers."""
        self.fetchers = FetcherManager(
            broker_id,
            self._connect,
            FetcherSettings(
                level=config.inter_broker_protocol,
                fetchers=config.replica_fetchers,
                max_bytes=config.replica_fetch_max_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                min_bytes=config.replica_fetch_min_bytes,
                max_wait_ms=config.replica_fetch_wait_ms,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
            runtime=runtime,
            throttle=self._throttle(),
        )

    def settings_changed(self, settings: Mapping[str, str]) -> None:
        """Set the rates of the throttles from the settings in ZooKeeper."""
        self.leader_throttle.set_rate(settings.get(LEADER_RATE))
        self.fetchers.throttle.set_rate(settings.get(FOLLOWER_RATE))

    def _connect(self, broker_id: int, number: int) -> Line:
        broker = self._view.brokers.get(broker_id)
        if broker is None:
            raise NetworkError(f"broker {broker_id} is not registered")
        return self._dialing.connection(
            broker,
            f"fetcher-{number}",
            self._config.replica_socket_timeout_ms,
            receive_buffer_bytes=self._config.replica_receive_buffer_bytes,
        )

    def _throttle(self) -> ReplicationThrottle:
        return ReplicationThrottle(
            self._runtime,
            windows=self._config.replication_quota_windows,
            window_ms=self._config.replication_quota_window_s * 1000,
        )
