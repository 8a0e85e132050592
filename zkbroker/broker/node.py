"""A broker: log, registry and server put together, started and stopped in order.

    start: lock and recover logs -> ZooKeeper session -> listen -> open assigned logs
           -> register the broker -> stand for controller -> register partitions -> serve
    stop:  leave the groups -> deregister -> stop accepting -> answer what is in flight
           -> flush and close logs, clean marker -> end the session

Invariant: a start that fails undoes what it did and raises; a broker that returned from `start`
serves every partition that was assigned to it then.
"""

import logging
import socket
import time
from collections.abc import Callable
from pathlib import Path

import gevent

from zkbroker.broker.clients import ClientVersions, save_clients
from zkbroker.broker.coordination import Coordination
from zkbroker.broker.deletion import TopicDeletion
from zkbroker.broker.dispatcher import Dispatcher, Handler
from zkbroker.broker.handlers.configs import ConfigsHandlers
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.list_offsets import ListOffsetsHandler
from zkbroker.broker.handlers.metadata import ApiVersionsHandler, MetadataHandler
from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.handlers.producer_ids import InitProducerIdHandler
from zkbroker.broker.handlers.topics import TopicsHandlers
from zkbroker.broker.hosting import Hosting
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.operator_requests import OperatorRequestsAnswer
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.topics import Topics
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ConfigError, RegistryError, StorageError, ZkbrokerError
from zkbroker.log import LogManager
from zkbroker.log.manager import wall_ms
from zkbroker.network.server import Limits, Listener, Server
from zkbroker.protocol import ApiKey
from zkbroker.registry import SessionState, ZkSession
from zkbroker.registry.brokers import BrokerInfo, BrokersWatch, next_broker_id
from zkbroker.registry.cluster_id import cluster_id
from zkbroker.registry.controller import ControllerElection, current_controller
from zkbroker.registry.presence import BrokerPresence, SessionRecord
from zkbroker.registry.producer_ids import ProducerIds
from zkbroker.registry.states_watch import StatesWatch
from zkbroker.registry.topics_watch import TopicsView, TopicsWatch
from zkbroker.runtime import get_runtime

logger = logging.getLogger(__name__)

SESSION_FILE = "zookeeper-session.json"
SETTLE_S = 60.0
CLIENTS_SAVED_S = 10.0


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
        self._timeout_s = config.controlled_shutdown_ms / 1000
        self._runtime = get_runtime("gevent")
        self._controller: int | None = None
        self.broker_id = config.broker_id
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
            len(self.services.hosting.all()),
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
            config.log_manager, config.log, runtime=self._runtime, now_ms=self._now_ms
        )
        try:
            logs.start(broker_id=config.broker_id if config.broker_id >= 0 else None)
            self._undo.append(("logs", logs.close))
        finally:
            connecting.join()
        failure = connecting.get()
        if failure is not None:
            raise failure
        self.broker_id = self._own_id(logs, session)
        cluster = cluster_id(session)
        logs.write_meta(self.broker_id, cluster)
        server = self._listen()
        own = self._registration(server)
        self._compose(session, logs, own, cluster)
        self._enter_cluster(session, own)
        server.start()
        self._spawn_saver()
        if config.admin_port >= 0:
            self._open_page()

    def _own_id(self, logs: LogManager, session: ZkSession) -> int:
        if self._config.broker_id >= 0:
            return self._config.broker_id
        if logs.stored_broker_id is not None:
            return logs.stored_broker_id
        return next_broker_id(session, self._config.reserved_broker_max_id)

    def _listen(self) -> Server:
        config = self._config
        server = Server(
            [Listener(each.name, each.host, each.port) for each in config.endpoints],
            lambda session, frame: self._dispatcher.handle(session, frame),
            Limits(
                max_request_bytes=config.max_request_bytes,
                max_queued_requests=config.queued_max_requests,
                max_connections=config.max_connections,
                max_connections_per_ip=config.max_connections_per_ip,
                max_connections_overrides=config.max_connections_overrides,
                max_idle_s=config.max_idle_ms / 1000,
                max_frame_s=config.max_frame_ms / 1000,
                max_queued_request_bytes=config.queued_max_request_bytes,
                max_answer_bytes=config.fetch_conversion_max_bytes,
                send_buffer_bytes=config.send_buffer_bytes,
                receive_buffer_bytes=config.receive_buffer_bytes,
            ),
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

    def _compose(self, session: ZkSession, logs: LogManager, own: BrokerInfo, cluster: str) -> None:
        config = self._config
        view = ClusterView(own)
        view.cluster_id = cluster
        metrics = BrokerMetrics(config.metrics_topics)
        hosting = Hosting(self.broker_id, logs, session, view, metrics)
        self.services = BrokerServices(
            config=config,
            broker_id=self.broker_id,
            runtime=self._runtime,
            session=session,
            logs=logs,
            view=view,
            hosting=hosting,
            topics=Topics(config, session, view),
            metrics=metrics,
            clients=ClientVersions(self._now_ms),
            now_ms=self._now_ms,
            controller_id=lambda: self._controller,
            stopping=lambda: self._stopping,
        )
        self._coordination = Coordination(self.services)
        self._dispatcher = Dispatcher(self._handlers(), metrics, self.services.clients)

    def _handlers(self) -> dict[ApiKey, Handler]:
        services = self.services
        topics = TopicsHandlers(services)
        configs = ConfigsHandlers(services)
        producer_ids = ProducerIds(services.session, self.broker_id)
        handlers: dict[ApiKey, Handler] = {
            ApiKey.PRODUCE: ProduceHandler(services),
            ApiKey.FETCH: FetchHandler(services),
            ApiKey.LIST_OFFSETS: ListOffsetsHandler(services),
            ApiKey.METADATA: MetadataHandler(services),
            ApiKey.CREATE_TOPICS: topics.create_topics,
            ApiKey.DELETE_TOPICS: topics.delete_topics,
            ApiKey.CREATE_PARTITIONS: topics.create_partitions,
            ApiKey.DELETE_RECORDS: topics.delete_records,
            ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
            ApiKey.ALTER_CONFIGS: configs.alter_configs,
            ApiKey.INIT_PRODUCER_ID: InitProducerIdHandler(services, producer_ids),
            **self._coordination.handlers(),
        }
        handlers[ApiKey.API_VERSIONS] = ApiVersionsHandler(lambda: handlers)
        return handlers

    def _enter_cluster(self, session: ZkSession, own: BrokerInfo) -> None:
        services = self.services
        hosting, view = services.hosting, services.view
        deletion = TopicDeletion(session, services.config, lambda: view.topics)
        requests = OperatorRequestsAnswer(session, lambda: view.topics)

        def patience_s() -> float:
            # Without ZooKeeper there is nothing to wait for: what we made there ends by itself.
            return 10.0 if session.state is SessionState.CONNECTED else 0.2

        states_watch = StatesWatch(session, view.elsewhere, view.set_states)

        def topics_changed(topics: TopicsView) -> None:
            view.set_topics(topics)
            states_watch.poke()
            self._coordination.topics_changed(topics)
            deletion.poke()
            hosting.poke()

        topics_watch = TopicsWatch(session, topics_changed)
        topics_watch.start()
        self._undo.append(("topics watch", lambda: topics_watch.close(patience_s())))
        hosting.open_assigned()
        presence = BrokerPresence(
            session,
            own,
            record=SessionRecord(Path(self._config.log_manager.log_dirs[0]) / SESSION_FILE),
            on_registered=hosting.poke,
        )
        self._undo.append(("registration", lambda: presence.close(patience_s())))
        presence.start()
        brokers_watch = BrokersWatch(session, view.set_brokers)
        brokers_watch.start()
        self._undo.append(("brokers watch", lambda: brokers_watch.close(patience_s())))
        states_watch.start()
        self._undo.append(("states watch", lambda: states_watch.close(patience_s())))

        def elected(epoch: int) -> None:
            deletion.elected()
            requests.elected()

        def resigned() -> None:
            deletion.resigned()
            requests.resigned()

        election = ControllerElection(
            session, self.broker_id, on_elected=elected, on_resigned=resigned
        )
        self._undo.append(("controller election", lambda: election.close(patience_s())))
        deletion.begin()
        self._undo.append(("topic deletion", deletion.end))
        requests.start()
        self._undo.append(("operator requests", lambda: requests.close(patience_s())))
        election.start()
        self._undo.append(("controller watch", self._watch_controller(session)))
        hosting.start()
        self._undo.append(("hosting", hosting.stop))
        if not hosting.wait_settled(SETTLE_S):
            raise RegistryError(f"partitions could not be registered within {SETTLE_S:g} s")
        self._coordination.start()
        self._undo.append(("groups", self._coordination.close))

    def _watch_controller(self, session: ZkSession) -> Callable[[], None]:
        changed = self._runtime.event()

        def follow() -> None:
            while True:
                changed.clear()
                try:
                    self._controller = current_controller(session, changed)
                except RegistryError as error:
                    logger.debug("controller unknown error=%s", error)
                    changed.wait(1.0)
                    continue
                changed.wait()

        self._controller = current_controller(session)
        task = gevent.spawn(follow)
        return lambda: task.kill()

    def _open_page(self) -> None:
        # Imported when wanted: its library is an extra, and costs a small broker memory.
        try:
            from zkbroker.broker.exposition import MetricsPage
        except ImportError as error:
            raise ConfigError(
                "admin.port needs the metrics extra: pip install 'zkbroker[metrics]', or leave "
                "admin.port out"
            ) from error
        config = self._config
        page = MetricsPage(self.services, config.admin_host, config.admin_port)
        try:
            page.start()
        except OSError as error:
            raise StorageError(
                f"cannot listen on admin.port {config.admin_host}:{config.admin_port}: {error}"
            ) from error
        self._undo.append(("metrics page", page.stop))

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


def _outcome(function: Callable[[], object]) -> ZkbrokerError | None:
    """Return the error with which a function ended: one that leaves a greenlet is printed there."""
    try:
        function()
    except ZkbrokerError as error:
        return error
    return None
