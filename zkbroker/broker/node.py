"""A broker: log, registry and server put together, started and stopped in order.

    start: take the admin port -> lock and recover logs -> ZooKeeper session -> listen
           -> open assigned logs -> register the broker -> stand for controller
           -> register partitions -> serve
    stop:  hand leaderships over -> leave the groups -> deregister -> stop accepting
           -> answer what is in flight -> flush and close logs, clean marker -> end the session

Invariant: a start that fails undoes what it did and raises; a broker that returned from `start`
serves every partition that was assigned to it then.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import gevent

from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.clients import ClientVersions, save_clients
from zkbroker.broker.coordination import Coordination
from zkbroker.broker.dispatcher import Dispatcher, Handler
from zkbroker.broker.handlers import acls
from zkbroker.broker.handlers.configs import ConfigsHandlers
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.list_offsets import ListOffsetsHandler
from zkbroker.broker.handlers.log_dirs import DescribeLogDirsHandler
from zkbroker.broker.handlers.metadata import ApiVersionsHandler, MetadataHandler
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.broker.handlers.topics import TopicsHandlers
from zkbroker.broker.membership import ClusterMembership
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.peers import PeerKnowledge
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.topic_settings import TopicSettings, when_connected
from zkbroker.broker.topics import Topics
from zkbroker.broker.transactions import Transactions
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.controller import Controller
from zkbroker.controller.connections import BrokerLine
from zkbroker.errors import ConfigError, NetworkError, RegistryError, StorageError, ZkbrokerError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.managed import wall_ms
from zkbroker.network.server.server import Limits, Listener, Server
from zkbroker.protocol import ApiKey
from zkbroker.registry.broker_configs import BrokerConfigWatch
from zkbroker.registry.brokers import BrokerInfo, BrokersWatch, next_broker_id
from zkbroker.registry.cluster_id import cluster_id
from zkbroker.registry.partition_states import PartitionStates, StateForm, declare_form
from zkbroker.registry.producer_ids import raise_above
from zkbroker.registry.topics_watch import TopicsView, TopicsWatch
from zkbroker.replica.checkpoint import HighWatermarkCheckpoint
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.following import FetcherSettings
from zkbroker.replica.manager import ReplicaManager, ReplicaSettings
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.replica.throttle import ReplicationThrottle
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import SessionState, ZkSession
from zkbroker.zookeeper.patience import patiently

if TYPE_CHECKING:
    from zkbroker.broker.exposition import MetricsPage

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOLD_S = 60.0
ANSWERED_S = 0.01
EPOCH_ATTEMPTS = 5
CLIENTS_SAVED_S = 10.0


def monotonic_ms() -> int:
    """Return milliseconds on a clock that never jumps."""
    return time.monotonic_ns() // 1_000_000


class BrokerNode:
    """One broker. Its work runs on the gevent hub of the thread that starts it.

    Args:
        config: its settings.
        now_ms: wall clock in milliseconds.
    """

    def __init__(self, config: BrokerConfig, *, now_ms: Callable[[], int] = wall_ms) -> None:
        self._config = config
        self._now_ms = now_ms
        self._undo: list[tuple[str, Callable[[], object]]] = []
        self._stopping = False
        self._nothing_waits = False
        self._topics_listeners: list[Callable[[], object]] = []
        self._timeout_s = config.controlled_shutdown_ms / 1000
        self._runtime = get_runtime("gevent")
        self.broker_id = config.broker_id
        self.failed = self._runtime.event()
        """Set when the last data directory failed: there is nothing left to serve."""
        self.services: BrokerServices

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that clients of the first listener are told."""
        own = self.services.view.own
        return own.host, own.port

    def start(self) -> None:
        """Start and serve.

        Raises:
            ConfigError, StorageError, RegistryError: it cannot; nothing is left running.
        """
        started = time.monotonic()
        try:
            self._start()
        except BaseException:
            self._unwind()
            raise
        host, port = self.address
        logger.info(
            "broker started id=%d address=%s:%d partitions=%d seconds=%.3f",
            self.broker_id,
            host,
            port,
            len(self.services.replicas.all()),
            time.monotonic() - started,
        )

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop in order.

        Args:
            timeout_s: how long requests in flight may take; `shutdown.timeout.ms` by default.
        """
        if self._stopping:
            return
        self._stopping = True
        if timeout_s is not None:
            self._timeout_s = timeout_s
        logger.info("broker stopping id=%d", self.broker_id)
        self._unwind()
        logger.info("broker stopped id=%d", self.broker_id)

    def _start(self) -> None:
        config = self._config
        # Taken before anything is registered: a port in use must not be noticed last.
        page = self._open_page() if config.admin_port >= 0 else None
        session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connect_timeout_ms=(
                None
                if config.zookeeper_connection_timeout_ms < 0
                else config.zookeeper_connection_timeout_ms
            ),
            runtime=self._runtime,
        )
        # ZooKeeper is reached while the logs are recovered.
        connecting = gevent.spawn(_outcome, session.start)
        self._undo.append(("session", session.close))
        logs = LogManager(
            config.log_manager,
            config.log,
            runtime=self._runtime,
            now_ms=self._now_ms,
            open_limit=PartitionCapacity(config.log_manager.open_segments).limit,
        )

        def directory_failed(*failed: object) -> None:
            if logs.failure() is not None:
                self.failed.set()

        logs.on_offline(directory_failed)

        def connected() -> ZkSession:
            connecting.join()
            failure = connecting.get()
            if failure is not None:
                raise RegistryError(str(failure))
            return session

        try:
            logs.start(
                broker_id=config.broker_id if config.broker_id >= 0 else None,
                topic_settings=when_connected(connected),
            )
            self._undo.append(("logs", logs.close))
        finally:
            connecting.join()
        failure = connecting.get()
        if failure is not None:
            raise failure
        self.broker_id = self._own_id(logs, session)
        cluster = self._patiently(session, lambda: cluster_id(session))
        logs.write_meta(self.broker_id, cluster, new_directories=False)
        self._patiently(
            session, lambda: raise_above(session, self.broker_id, logs.highest_producer_id())
        )
        server = self._listen()
        own = self._registration(server)
        form = StateForm(config.partition_state_znodes)
        self._patiently(session, lambda: declare_form(session, form, self.broker_id))
        states = PartitionStates(session, form)
        self._compose(session, logs, own, cluster, states, _local(server))
        self._enter_cluster(session, states, server)
        if self._config.legacy07.listener:
            self._start_legacy07()
        self._spawn_saver()
        if page is not None:
            page.show(self.services)
            self._undo.append(("metrics", page.hide))

    def _patiently(self, session: ZkSession, step: Callable[[], T]) -> T:
        """Take a step of the start that does no harm when it is taken twice."""
        config = self._config
        timeout_ms = config.zookeeper_connection_timeout_ms
        if timeout_ms < 0:
            timeout_ms = config.zookeeper_session_timeout_ms
        return patiently(session, step, timeout_ms / 1000)

    def _own_id(self, logs: LogManager, session: ZkSession) -> int:
        if self._config.broker_id >= 0:
            return self._config.broker_id
        if logs.stored_broker_id is not None:
            return logs.stored_broker_id
        return next_broker_id(session, self._config.reserved_broker_max_id)

    def _limits(self) -> Limits:
        config = self._config
        return Limits(
            max_request_bytes=config.max_request_bytes,
            max_queued_requests=config.queued_max_requests,
            max_connections=config.max_connections,
            max_connections_per_ip=config.max_connections_per_ip,
            max_connections_overrides=config.max_connections_overrides,
            max_idle_s=config.max_idle_ms / 1000,
            max_frame_s=config.max_frame_ms / 1000,
            max_queued_request_bytes=config.queued_max_request_bytes,
            min_bytes_per_s=config.min_request_bytes_per_second,
            max_answer_bytes=config.fetch_conversion_max_bytes,
            send_buffer_bytes=config.send_buffer_bytes,
            receive_buffer_bytes=config.receive_buffer_bytes,
        )

    def _start_legacy07(self) -> None:
        # Imported when wanted: few brokers serve clients of 0.7.
        from zkbroker.broker.legacy07 import Legacy07Broker

        legacy07 = Legacy07Broker(self.services, self._limits())
        legacy07.start()
        self._topics_listeners.append(legacy07.views.topics_changed)
        self._undo.append(("0.7 listener", lambda: legacy07.close(self._timeout_s)))

    def _listen(self) -> Server:
        config = self._config
        server = Server(
            [Listener(each.name, each.host, each.port) for each in config.endpoints],
            lambda session, frame: self._dispatcher.handle(session, frame),
            self._limits(),
            sent=lambda session: self._dispatcher.sent(session),
        )
        try:
            server.listen()
        except OSError as error:
            places = ", ".join(str(each) for each in config.endpoints)
            raise StorageError(
                f"cannot listen on {places}: {error.strerror or error}; stop what uses the port, "
                "or set another one with port or listeners"
            ) from error
        for name, (host, port) in server.addresses.items():
            shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            logger.info("listening address=%s listener=%s", shown, name)
        self._undo.append(("server", lambda: server.stop(self._timeout_s)))
        return server

    def _registration(self, server: Server) -> BrokerInfo:
        config = self._config
        told = config.advertised_endpoints(server.addresses, socket.getfqdn)
        return BrokerInfo(
            id=self.broker_id,
            host=told[0].host,
            port=told[0].port,
            rack=config.rack or None,
            endpoints=tuple(str(each) for each in told),
        )

    def _compose(
        self,
        session: ZkSession,
        logs: LogManager,
        own: BrokerInfo,
        cluster: str,
        states: PartitionStates,
        local: tuple[str, int],
    ) -> None:
        config = self._config
        runtime = self._runtime
        view = ClusterView(own)
        view.cluster_id = cluster
        metrics = BrokerMetrics(config.metrics_topics)
        capacity = PartitionCapacity(config.log_manager.open_segments)
        self._topic_settings = TopicSettings(session, logs, view)
        self._writer = LeaderStateWriter(
            session,
            states,
            self.broker_id,
            runtime=runtime,
            clock_ms=monotonic_ms,
            written=view.notify,
        )
        self._fence = ControllerFence(
            lambda: self._membership.broker_epoch,
            lambda epoch: self._membership.was_elected(epoch),
        )
        replicas = ReplicaManager(
            self.broker_id,
            logs,
            self._writer,
            self._fence,
            self._topic_settings.of,
            runtime=runtime,
            clock_ms=monotonic_ms,
            settings=ReplicaSettings(lag_ms=config.replica_lag_ms),
            fetchers=self._compose_fetchers(view),
            open_limit=lambda: capacity.limit,
            session_over=lambda: self._membership.session_over(),
        )
        self._membership = ClusterMembership(
            config, session, states, view, own, replicas.session_renewed
        )
        self._controller = Controller(
            config,
            session,
            states,
            self.broker_id,
            # A broker reaches itself also where the address that it advertises is another's view.
            lambda broker: BrokerLine(
                runtime,
                replace(broker, host=local[0], port=local[1]) if broker.id == own.id else broker,
                f"broker-{self.broker_id}-controller",
                config.controller_socket_timeout_ms,
            ),
        )
        self.services = BrokerServices(
            config=config,
            broker_id=self.broker_id,
            runtime=runtime,
            session=session,
            logs=logs,
            view=view,
            replicas=replicas,
            fetchers=self._fetchers,
            topics=Topics(config, session, view, capacity),
            metrics=metrics,
            clients=ClientVersions(self._now_ms),
            now_ms=self._now_ms,
            controller_id=lambda: self._membership.controller_id,
            nothing_waits=lambda: self._nothing_waits,
            controller_metrics=self._controller.metrics,
        )
        self._coordination = Coordination(self.services)
        self._transactions = Transactions(self.services, self._coordination.coordinator)
        self.services.transaction_figures = self._transactions.coordinator.figures
        self._dispatcher = Dispatcher(
            self._handlers(), metrics, self.services.clients, max_items=config.max_request_items
        )

    def _compose_fetchers(self, view: ClusterView) -> FetcherManager:
        config = self._config

        def connect(broker_id: int, number: int) -> BrokerLine:
            broker = view.brokers.get(broker_id)
            if broker is None:
                raise NetworkError(f"broker {broker_id} is not registered")
            return BrokerLine(
                self._runtime,
                broker,
                f"broker-{self.broker_id}-fetcher-{number}",
                config.replica_socket_timeout_ms,
                config.replica_receive_buffer_bytes,
            )

        def throttle() -> ReplicationThrottle:
            return ReplicationThrottle(
                monotonic_ms,
                windows=config.replication_quota_windows,
                window_ms=config.replication_quota_window_s * 1000,
            )

        self._leader_throttle = throttle()
        self._fetchers = FetcherManager(
            self.broker_id,
            connect,
            FetcherSettings(
                level=config.inter_broker_protocol,
                fetchers=config.replica_fetchers,
                max_bytes=config.replica_fetch_max_bytes,
                response_max_bytes=config.replica_fetch_response_max_bytes,
                min_bytes=config.replica_fetch_min_bytes,
                max_wait_ms=config.replica_fetch_wait_ms,
                backoff_ms=config.replica_fetch_backoff_ms,
            ),
            runtime=self._runtime,
            clock_ms=monotonic_ms,
            throttle=throttle(),
        )
        return self._fetchers

    def _peer(self, broker: BrokerInfo) -> BrokerLine:
        return BrokerLine(
            self._runtime,
            broker,
            f"broker-{self.broker_id}-metadata",
            # One that is silent for so long is as good as gone.
            self._config.zookeeper_session_timeout_ms,
        )

    def _settings_changed(self, settings: Mapping[str, str]) -> None:
        """Take what `/config/brokers/[id]` says: how fast replicas may be copied."""
        self._leader_throttle.set_rate(settings.get("leader.replication.throttled.rate"))
        self._fetchers.throttle.set_rate(settings.get("follower.replication.throttled.rate"))

    def _handlers(self) -> dict[ApiKey, Handler]:
        services = self.services
        topics = TopicsHandlers(services)
        configs = ConfigsHandlers(services)
        verify = self._transactions.verifier.check
        handlers: dict[ApiKey, Handler] = {
            ApiKey.PRODUCE: ProduceHandler(services, verify),
            ApiKey.FETCH: FetchHandler(services, self._leader_throttle),
            ApiKey.LIST_OFFSETS: ListOffsetsHandler(services),
            ApiKey.METADATA: MetadataHandler(services),
            ApiKey.CREATE_TOPICS: topics.create_topics,
            ApiKey.DELETE_TOPICS: topics.delete_topics,
            ApiKey.CREATE_PARTITIONS: topics.create_partitions,
            ApiKey.DELETE_RECORDS: topics.delete_records,
            ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
            ApiKey.ALTER_CONFIGS: configs.alter_configs,
            ApiKey.DESCRIBE_ACLS: acls.describe_acls,
            ApiKey.CREATE_ACLS: acls.create_acls,
            ApiKey.DELETE_ACLS: acls.delete_acls,
            ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsHandler(services.logs, services.replicas),
            **self._coordination.handlers(verify),
            **self._transactions.handlers(),
            **ReplicationHandlers(
                services, self._fence, self._controller, self._membership.learn_epoch
            ).all(),
        }
        handlers[ApiKey.API_VERSIONS] = ApiVersionsHandler(lambda: handlers)
        return handlers

    def _enter_cluster(self, session: ZkSession, states: PartitionStates, server: Server) -> None:
        services = self.services
        view, replicas, membership = services.view, services.replicas, self._membership

        def patience_s() -> float:
            # Without ZooKeeper there is nothing to wait for: what we made there ends by itself.
            return 10.0 if session.state is SessionState.CONNECTED else 0.2

        self._undo.append(("session state", session.on_state(_tell_outage)))
        self._undo.append(("session watch", session.on_state(membership.note_session)))

        def topics_changed(topics: TopicsView) -> None:
            view.set_topics(topics)
            self._topic_settings.apply(topics)
            self._coordination.topics_changed(topics)
            for listener in self._topics_listeners:
                listener()

        topics_watch = TopicsWatch(session, topics_changed)
        self._patiently(session, topics_watch.start)
        self._undo.append(("topics watch", lambda: topics_watch.close(patience_s())))
        self._patiently(session, lambda: self._look_for_lost_logs(states))
        self._patiently(session, lambda: self._raise_epochs(states))
        self._undo.append(("registration", lambda: membership.deregister(patience_s())))
        self._patiently(session, membership.start)
        brokers_watch = BrokersWatch(session, view.set_brokers)
        self._patiently(session, brokers_watch.start)
        self._undo.append(("brokers watch", lambda: brokers_watch.close(patience_s())))
        self._writer.start()
        self._undo.append(("leader states", lambda: self._writer.close(patience_s())))
        settings_watch = BrokerConfigWatch(session, self.broker_id, self._settings_changed)
        self._patiently(session, settings_watch.start)
        self._undo.append(("settings watch", lambda: settings_watch.close(patience_s())))
        peers = PeerKnowledge(view, membership.session_over, self._peer, runtime=self._runtime)
        peers.start()
        self._undo.append(("other brokers", lambda: peers.close(patience_s())))
        checkpoint = HighWatermarkCheckpoint(
            services.logs, self._config.high_watermark_checkpoint_ms, runtime=self._runtime
        )
        checkpoint.start()
        self._undo.append(("high watermarks", lambda: checkpoint.close(self._timeout_s)))
        self._undo.append(("fetchers", lambda: self._fetchers.close(patience_s())))
        replicas.start()
        self._undo.append(("replicas", lambda: self._stop_replicas(states, patience_s())))
        # The controller, perhaps this broker's own, speaks to it over the network.
        server.start()
        self._undo.append(("controller", lambda: self._controller.close(patience_s())))
        self._controller.start()
        self._undo.append(("controller watch", membership.close))
        self._patiently(session, membership.follow_controller)
        # Ended when others coordinate: until then members would be sent from here to here.
        self._undo.append(("transactions", self._transactions.close))
        self._undo.append(("groups", self._coordination.close))
        self._undo.append(("leaderships", self._hand_over))
        if not view.wait_for(self._told_everything, TOLD_S):
            raise RegistryError(
                f"the controller did not tell this broker of its partitions within {TOLD_S:g} s: "
                "look at the log of the broker that is named in /controller"
            )
        self._coordination.start()
        self._transactions.start()

    def _look_for_lost_logs(self, states: PartitionStates) -> None:
        """Lead nothing empty that this broker is known to have held; then the directories are its.

        A replica in sync holds all that was acknowledged. One whose data directory is new, and
        that has no log, does not any more: the others would cut their logs to nothing after it.
        Where others are in sync it leaves the ISR, and copies the log as any follower does.

        Raises:
            RegistryError: ZooKeeper does not answer.
            StorageError: no data directory can be written.
        """
        services = self.services
        logs = services.logs
        new = logs.new_directories
        if not new:
            return
        assigned = [
            (topic, number)
            for topic, assignment in services.view.topics.assignments.items()
            for number, replicas in assignment.items()
            if self.broker_id in replicas and logs.get(TopicPartition(topic, number)) is None
        ]
        lost = states.leave_isrs(self.broker_id, assigned)
        if not lost:
            logs.write_meta(self.broker_id, services.view.cluster_id)
            return
        # The directories stay without their note, so that the next start looks again.
        services.replicas.refuse_to_lead(lost)
        logger.error(
            "logs lost count=%d first=%s-%d: %s had no meta.properties, and ZooKeeper names this "
            "broker in sync for them; it leads none of them",
            len(lost),
            *min(lost),
            ", ".join(new),
        )

    def _raise_epochs(self, states: PartitionStates) -> None:
        """Have leader epochs go on above those that the logs know.

        Logs that come from elsewhere know epochs that this cluster does not. All other epochs are
        raised by controllers alone.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        logs = {(tp.topic, tp.partition): log for tp, log in self.services.logs.logs().items()}
        assignments = self.services.view.topics.assignments
        here = [
            (topic, number)
            for topic, number in logs
            if self.broker_id in assignments.get(topic, {}).get(number, ())
        ]
        floors = {key: floor for key in here if (floor := logs[key].epochs.latest) >= 0}
        for attempts_left in reversed(range(EPOCH_ATTEMPTS)):
            try:
                states.raise_epochs(floors)
            except RegistryError as error:
                if not attempts_left:
                    raise
                # A controller decided at the same moment.
                logger.info("leader epochs are looked at again error=%s", error)
            else:
                return

    def _told_everything(self) -> bool:
        """Whether the controller told of all that is assigned here, and of who leads it.

        And whether what is led here stands in ZooKeeper, where old clients look for leaders.
        """
        services = self.services
        topics = services.view.topics
        for topic, assignment in topics.assignments.items():
            if topic in topics.deleting:
                continue
            for number, assigned in assignment.items():
                if self.broker_id not in assigned:
                    continue
                partition = services.replicas.get(topic, number)
                if partition is None:
                    return False
                if partition.is_leader and services.view.decided(topic, number) is None:
                    return False
        return self._writer.idle

    def _hand_over(self) -> None:
        if self._config.controlled_shutdown:
            self.services.replicas.leave()
        assigned = [each.replicas for each in self.services.replicas.all()]
        self._membership.hand_over(self._controller, assigned)

    def _stop_replicas(self, states: PartitionStates, timeout_s: float) -> None:
        replicas = self.services.replicas
        # Not before: while leaderships are handed over, followers and consumers would fetch without
        # a pause what is not there, here and in the clients, from all who are to take over.
        self._nothing_waits = True
        for partition in replicas.all():
            partition.wake()
        # Who waits for data is answered while the partition is still led.
        gevent.sleep(ANSWERED_S)
        led = [each.key for each in replicas.led()]
        replicas.close(timeout_s)
        if self.services.session.state is SessionState.CONNECTED:
            states.unregister_leader(led)

    def _open_page(self) -> "MetricsPage":
        # Imported when wanted: its library is an extra, and costs a small broker memory.
        try:
            from zkbroker.broker.exposition import MetricsPage
        except ImportError as error:
            raise ConfigError(
                "admin.port needs the metrics extra: pip install 'zkbroker[metrics]', or leave "
                "admin.port out"
            ) from error
        config = self._config
        page = MetricsPage(config.admin_host, config.admin_port)
        try:
            page.start()
        except OSError as error:
            raise StorageError(
                f"cannot listen on admin.port {config.admin_host}:{config.admin_port}: "
                f"{os.strerror(error.errno) if error.errno else error}; stop what uses the port, "
                "or set another admin.port"
            ) from error
        self._undo.append(("metrics page", page.stop))
        return page

    def _spawn_saver(self) -> None:
        directory = Path(self._config.log_manager.log_dirs[0])

        def save() -> None:
            try:
                counts = self.services.clients.snapshot()
                self._runtime.offload(save_clients, directory, counts)
            except OSError as error:
                logger.warning("client versions not saved error=%s", error)

        def save_often() -> None:
            while True:
                gevent.sleep(CLIENTS_SAVED_S)
                save()

        task = gevent.spawn(save_often)

        def end() -> None:
            task.kill()
            save()

        self._undo.append(("client versions", end))

    def _unwind(self) -> None:
        """Undo in reverse order what was done; a failure does not keep the rest from happening."""
        while self._undo:
            name, undo = self._undo.pop()
            logger.debug("shutdown step=%s", name)
            try:
                undo()
            except (ZkbrokerError, OSError) as error:
                logger.warning("shutdown step failed step=%s error=%s", name, error)
            except Exception:
                logger.exception("shutdown step failed step=%s", name)


def _local(server: Server) -> tuple[str, int]:
    """Return host and port under which this machine reaches the first listener."""
    host, port = next(iter(server.addresses.values()))
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104


def _tell_outage(state: SessionState) -> None:
    if state is SessionState.SUSPENDED:
        logger.warning("ZooKeeper does not answer; partitions are served on")
    elif state is SessionState.CONNECTED:
        logger.info("ZooKeeper answers again")


def _outcome(function: Callable[[], object]) -> ZkbrokerError | None:
    """Return the error with which a function ended: one that leaves a greenlet is printed there."""
    try:
        function()
    except ZkbrokerError as error:
        return error
    return None
