"""A broker: log, registry and server put together, started and stopped in order.

    start: take the admin port -> lock and recover logs -> ZooKeeper session -> listen
           -> open assigned logs -> register the broker -> stand for controller
           -> register partitions -> serve
    stop:  hand leaderships over -> leave the groups -> deregister -> stop accepting
           -> answer what is in flight -> flush and close logs, clean marker -> end the session

Invariant: a start that fails undoes what it did and raises; a broker that returned from `start`
serves every partition that was assigned to it then.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import gevent

from zkbroker.broker.admin_port import open_metrics_page
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.clients import ClientVersions, save_often
from zkbroker.broker.coordination import Coordination
from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.broker.dynamic_config import DynamicConfig
from zkbroker.broker.found_logs import look_for_lost_logs, raise_epochs
from zkbroker.broker.handler_table import handler_table
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.broker.listening import limits, listen, local_address, registration
from zkbroker.broker.membership import ClusterMembership
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.peer_levels import PeerLevels
from zkbroker.broker.peers import PeerKnowledge
from zkbroker.broker.replica_copying import ReplicaCopying, monotonic_ms
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.topic_settings import Settings, TopicSettings, when_connected
from zkbroker.broker.topics import Topics
from zkbroker.broker.transactions import TransactionCoordination
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.controller import Controller
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.log import LogManager
from zkbroker.log.manager import wall_ms
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.network.server.server import Server
from zkbroker.registry.broker_configs import BrokerConfigWatch, broker_settings
from zkbroker.registry.brokers import BrokerInfo, BrokersWatch, next_broker_id
from zkbroker.registry.cluster_id import cluster_id
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.producer_ids import raise_above
from zkbroker.registry.state_form import StateForm, declare_form
from zkbroker.registry.topics_watch import TopicsView, TopicsWatch
from zkbroker.replica.checkpoint import HighWatermarkCheckpoint
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.manager import ReplicaManager, ReplicaSettings
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import SessionState, ZkSession
from zkbroker.zookeeper.patience import patiently

logger = logging.getLogger(__name__)

T = TypeVar("T")

TOLD_S = 60.0
ANSWERED_S = 0.01


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
        self._dynamic = DynamicConfig(config)
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
        page = None
        if config.admin_port >= 0:
            page = open_metrics_page(config)
            self._undo.append(("metrics page", page.stop))
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
        dynamic = self._dynamic
        dynamic.on_change(lambda now: logs.update_defaults(now.config.log))
        dynamic.on_change(lambda now: logs.cleaner.reconfigure(now.config.log_manager))

        def connected() -> ZkSession:
            connecting.join()
            failure = connecting.get()
            if failure is not None:
                raise RegistryError(str(failure))
            return session

        read_topic_settings = when_connected(connected)

        def topic_settings(topics: Set[str]) -> Settings:
            # Nothing is recovered, or deleted, by defaults that were changed since.
            known = config.broker_id if config.broker_id >= 0 else logs.stored_broker_id
            with contextlib.suppress(RegistryError):
                if known is not None:
                    dynamic.take(broker_settings(connected(), known))
            return read_topic_settings(topics)

        try:
            logs.start(
                broker_id=config.broker_id if config.broker_id >= 0 else None,
                topic_settings=topic_settings,
            )
            self._undo.append(("logs", logs.close))
        finally:
            connecting.join()
        failure = connecting.get()
        if failure is not None:
            raise failure
        self.broker_id = self._own_id(logs, session)
        settings = self._patiently(session, lambda: broker_settings(session, self.broker_id))
        dynamic.take(settings)
        cluster = self._patiently(session, lambda: cluster_id(session))
        logs.write_meta(self.broker_id, cluster, new_directories=False)
        self._patiently(
            session, lambda: raise_above(session, self.broker_id, logs.highest_producer_id())
        )
        server = listen(config)
        self._undo.append(("server", lambda: server.stop(self._timeout_s)))
        own = registration(config, self.broker_id, server)
        form = StateForm(config.partition_state_znodes)
        self._patiently(session, lambda: declare_form(session, form, self.broker_id))
        states = PartitionStates(session, form)
        self._compose(session, logs, own, cluster, states, local_address(server))
        self._enter_cluster(session, states, server)
        if self._config.legacy07.listener:
            self._start_legacy07()
        directory = Path(config.log_manager.log_dirs[0])
        self._undo.append(
            ("client versions", save_often(self.services.clients, directory, self._runtime))
        )
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

    def _start_legacy07(self) -> None:
        # Imported when wanted: few brokers serve clients of 0.7.
        from zkbroker.broker.legacy07 import Legacy07Broker

        legacy07 = Legacy07Broker(self.services, limits(self._config))
        legacy07.start()
        self._topics_listeners.append(legacy07.views.topics_changed)
        self._undo.append(("0.7 listener", lambda: legacy07.close(self._timeout_s)))

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
        self._copying = ReplicaCopying(config, self.broker_id, view, runtime=runtime)
        replicas = ReplicaManager(
            self.broker_id,
            logs,
            self._writer,
            self._fence,
            self._topic_settings.of,
            runtime=runtime,
            clock_ms=monotonic_ms,
            settings=ReplicaSettings(lag_ms=config.replica_lag_ms),
            fetchers=self._copying.fetchers,
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
            lambda broker: InterBrokerConnection(
                runtime,
                *(local if broker.id == own.id else (broker.host, broker.port)),
                client_id=f"broker-{self.broker_id}-controller",
                timeout_ms=config.controller_socket_timeout_ms,
            ),
        )
        self.services = BrokerServices(
            config=self._dynamic.config,
            dynamic=self._dynamic,
            broker_id=self.broker_id,
            runtime=runtime,
            session=session,
            logs=logs,
            view=view,
            replicas=replicas,
            fetchers=self._copying.fetchers,
            topics=Topics(config, session, view, capacity),
            metrics=metrics,
            clients=ClientVersions(self._now_ms),
            now_ms=self._now_ms,
            controller_id=lambda: self._membership.controller_id,
            nothing_waits=lambda: self._nothing_waits,
            controller_metrics=self._controller.metrics,
        )
        self._coordination = Coordination(self.services)
        self._transactions = TransactionCoordination(self.services, self._coordination.coordinator)
        self.services.transaction_figures = self._transactions.coordinator.figures
        self._dispatcher = Dispatcher(
            handler_table(
                self.services,
                self._coordination,
                self._transactions,
                ReplicationHandlers(
                    self.services, self._fence, self._controller, self._membership.learn_epoch
                ),
                self._copying.leader_throttle,
            ),
            metrics,
            self.services.clients,
            max_items=config.max_request_items,
        )

    def _peer(self, broker: BrokerInfo) -> InterBrokerConnection:
        return InterBrokerConnection(
            self._runtime,
            broker.host,
            broker.port,
            client_id=f"broker-{self.broker_id}-metadata",
            # One that is silent for so long is as good as gone.
            timeout_ms=self._config.zookeeper_session_timeout_ms,
        )

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
        self._patiently(session, lambda: look_for_lost_logs(services, states))
        self._patiently(session, lambda: raise_epochs(services, states))
        self._undo.append(("registration", lambda: membership.deregister(patience_s())))
        self._patiently(session, membership.start)
        levels = PeerLevels(self.broker_id, self._config.inter_broker_protocol)

        def brokers_changed(brokers: dict[int, BrokerInfo]) -> None:
            view.set_brokers(brokers)
            levels.look(brokers)

        brokers_watch = BrokersWatch(session, brokers_changed)
        self._patiently(session, brokers_watch.start)
        self._undo.append(("brokers watch", lambda: brokers_watch.close(patience_s())))
        self._writer.start()
        self._undo.append(("leader states", lambda: self._writer.close(patience_s())))
        self._dynamic.on_change(lambda now: self._reconfigure(now, server))
        settings_watch = BrokerConfigWatch(session, self.broker_id, self._dynamic.take)
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
        self._undo.append(("fetchers", lambda: self._copying.fetchers.close(patience_s())))
        replicas.start()
        self._undo.append(("replicas", lambda: self._stop_replicas(states, patience_s())))
        # The controller, perhaps this broker's own, speaks to it over the network.
        server.start(self._dispatcher.handle, self._dispatcher.sent)
        self._undo.append(("controller", lambda: self._controller.close(patience_s())))
        self._patiently(session, self._controller.start)
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

    def _reconfigure(self, now: DynamicConfig, server: Server) -> None:
        """Give the parts that are composed what holds now."""
        config = self.services.config = now.config
        self._copying.settings_changed(now.changed)
        self._copying.fetchers.resize(config.replica_fetchers)
        self._controller.set_unclean_default(config.log.unclean_leader_election)
        server.limits = replace(
            server.limits,
            max_connections_per_ip=config.max_connections_per_ip,
            max_connections_overrides=config.max_connections_overrides,
        )

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
