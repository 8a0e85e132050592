"""Starts what a broker is composed on: its logs, a ZooKeeper session, its id, its listeners.

    lock and recover logs, connect to ZooKeeper meanwhile -> broker id -> cluster id -> bind ports

Invariant: every started part is on the teardown; a failure leaves nothing half done.
"""

import contextlib
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import gevent

from zkbroker.broker.authorization import make_authorizer
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.dynamic_config import DynamicConfig
from zkbroker.broker.listening import listen, local_address, registration
from zkbroker.broker.logger_levels import AppliedLevels
from zkbroker.broker.teardown import Teardown
from zkbroker.broker.topic_settings import Settings, settings_for_recovery
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.log import LogManager
from zkbroker.network.client.opening import check_security
from zkbroker.network.server.server import Server
from zkbroker.network.server.tls import ListenersTls
from zkbroker.registry.broker_configs import broker_settings
from zkbroker.registry.brokers import BrokerInfo, next_broker_id
from zkbroker.registry.cluster_id import cluster_id
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.producer_ids import raise_above
from zkbroker.registry.state_form import StateForm, declare_form
from zkbroker.runtime import Event, Runtime
from zkbroker.security import Authorizer
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.retries import patiently

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The parts that are started first.

    Args:
        session: connected.
        logs: recovered.
        server: its ports are bound; it serves nothing yet.
        own: the broker's registration.
        local: host and port under which this machine reaches the listener of brokers.
        states: writes decisions in the cluster's form.
    """

    dynamic: DynamicConfig
    runtime: Runtime
    session: ZkSession
    logs: LogManager
    capacity: PartitionCapacity
    server: Server
    own: BrokerInfo
    local: tuple[str, int]
    cluster_id: str
    states: PartitionStates
    authorizer: Authorizer | None = None

    @property
    def config(self) -> BrokerConfig:
        """The configuration that the broker was started with."""
        return self.dynamic.static

    def patiently(self, step: Callable[[], T]) -> T:
        """Do a step of the start that may be repeated safely; retry while ZooKeeper is away."""
        return _patiently(self.config, self.session, step)


def lay_foundation(
    dynamic: DynamicConfig, runtime: Runtime, teardown: Teardown, all_failed: Event
) -> Foundation:
    """Start the first parts.

    Args:
        dynamic: the configuration of the broker.
        runtime: for all of its tasks.
        teardown: gets the steps that undo the start.
        all_failed: set when the last data directory has failed.

    Raises:
        ConfigError, StorageError, RegistryError: a part cannot be started.
    """
    config = dynamic.static
    levels = AppliedLevels()
    teardown.add("levels of loggers", lambda: levels.follow({}))
    dynamic.on_change(lambda now: levels.follow(now.config.logger_levels))
    # Check keys first: an unusable key is reported before logs are recovered and ZooKeeper is
    # contacted.
    check_security(config.security.client)
    tls = ListenersTls(config.security)
    # Created first: a broker whose authorizer cannot be created changes nothing.
    authorizer = make_authorizer(config)
    session = ZkSession(
        config.zookeeper_connect,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connect_timeout_ms=(
            None
            if config.zookeeper_connection_timeout_ms < 0
            else config.zookeeper_connection_timeout_ms
        ),
        runtime=runtime,
        security=config.zookeeper_security(),
    )
    capacity = PartitionCapacity(config.log_manager.open_segments)
    logs = LogManager(
        config.log_manager,
        config.log,
        runtime=runtime,
        now_ms=runtime.now_ms,
        open_limit=capacity.limit,
    )

    def directory_failed(*failed: object) -> None:
        if logs.failure() is not None:
            all_failed.set()

    logs.on_offline(directory_failed)
    dynamic.on_change(lambda now: logs.update_defaults(now.config.log))
    dynamic.on_change(lambda now: logs.cleaner.reconfigure(now.config.log_manager))
    _start_logs(dynamic, session, logs, teardown)

    patient = partial(_patiently, config, session)
    broker_id = _own_id(config, logs, session)
    dynamic.take(patient(lambda: broker_settings(session, broker_id)))
    cluster = patient(lambda: cluster_id(session))
    logs.write_meta(broker_id, cluster, new_directories=False)
    patient(lambda: raise_above(session, broker_id, logs.highest_producer_id()))
    dynamic.on_check(lambda changed: tls.check(changed.security))
    dynamic.on_change(lambda now: tls.follow(now.config.security))
    server = listen(config, tls)
    teardown.add("listeners", server.stop_accepting)
    form = StateForm(config.partition_state_znodes)
    patient(lambda: declare_form(session, form, broker_id))
    return Foundation(
        dynamic=dynamic,
        runtime=runtime,
        session=session,
        logs=logs,
        capacity=capacity,
        server=server,
        own=registration(config, broker_id, server),
        local=local_address(server, config.inter_broker),
        cluster_id=cluster,
        states=PartitionStates(session, form),
        authorizer=authorizer,
    )


def _start_logs(
    dynamic: DynamicConfig, session: ZkSession, logs: LogManager, teardown: Teardown
) -> None:
    """Recover the logs while the session connects."""
    configured_id = dynamic.static.broker_id if dynamic.static.broker_id >= 0 else None
    connecting = gevent.spawn(outcome, session.start)
    teardown.add("session", session.close)

    def connected() -> ZkSession:
        connecting.join()
        failure = connecting.get()
        if failure is not None:
            raise RegistryError(str(failure))
        return session

    def topic_settings(topics: Set[str]) -> Settings:
        # Apply the broker's settings in ZooKeeper first: recovery and retention depend on them.
        known = logs.stored_broker_id if configured_id is None else configured_id
        with contextlib.suppress(RegistryError):
            if known is not None:
                dynamic.take(broker_settings(connected(), known))
        return settings_for_recovery(connected, topics)

    try:
        logs.start(broker_id=configured_id, topic_settings=topic_settings)
        teardown.add("logs", logs.close)
    finally:
        connecting.join()
    failure = connecting.get()
    if failure is not None:
        raise failure


def _own_id(config: BrokerConfig, logs: LogManager, session: ZkSession) -> int:
    if config.broker_id >= 0:
        return config.broker_id
    if logs.stored_broker_id is not None:
        return logs.stored_broker_id
    return next_broker_id(session, config.reserved_broker_max_id)


def _patiently(config: BrokerConfig, session: ZkSession, step: Callable[[], T]) -> T:
    timeout_ms = config.zookeeper_connection_timeout_ms
    if timeout_ms < 0:
        timeout_ms = config.zookeeper_session_timeout_ms
    return patiently(session, step, timeout_ms / 1000)


def outcome(function: Callable[[], object]) -> ZkbrokerError | None:
    """Return the error of a function: gevent would print one that leaves a greenlet."""
    try:
        function()
    except ZkbrokerError as error:
        return error
    return None
