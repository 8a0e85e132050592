"""A broker: log, registry and server put together, started and stopped in order.

    start: take the admin port -> lock and recover logs -> ZooKeeper session -> listen
           -> open assigned logs -> register the broker -> stand for controller
           -> register partitions -> serve
    stop:  hand leaderships over -> leave the groups -> deregister -> stop accepting
           -> answer requests in flight -> flush and close logs, clean marker -> end the session

Invariant: a failed start is undone and raises. Once `start` has returned, the broker serves every
partition that was assigned to it at that time, as the present controller decided.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gevent

from zkbroker.broker.admin_port import open_metrics_page
from zkbroker.broker.clients import save_often
from zkbroker.broker.composition import BrokerParts, compose
from zkbroker.broker.dynamic_config import DynamicConfig
from zkbroker.broker.found_logs import look_for_lost_logs, raise_epochs
from zkbroker.broker.foundation import lay_foundation
from zkbroker.broker.listening import creation_limits, limits
from zkbroker.broker.mounting import Mount
from zkbroker.broker.readiness import STILL_S, Readiness
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.teardown import Teardown
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.registry.broker_configs import BrokerConfigWatch
from zkbroker.registry.brokers import BrokersWatch
from zkbroker.registry.topics_watch import TopicsWatch
from zkbroker.registry.user_configs import UserConfigsWatch
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import SessionState
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)

ANSWERED_S = 0.01


class BrokerNode:
    """One broker. Its work runs on the gevent hub of the thread that starts it.

    Args:
        config: its settings.
        console: makes the console, if the settings ask for one.
    """

    def __init__(self, config: BrokerConfig, console: Mount | None = None) -> None:
        self._console = console
        self._config = config
        self._runtime = get_runtime("gevent")
        self._teardown = Teardown()
        self._dynamic = DynamicConfig(config)
        self._stopping = False
        self._timeout_s = config.controlled_shutdown_ms / 1000
        self._parts: BrokerParts | None = None
        self.failed = self._runtime.event()
        """Set when the last data directory has failed: nothing can be served any more."""

    @property
    def services(self) -> BrokerServices:
        """The parts that the handlers use.

        Raises:
            ZkbrokerError: the broker was not started.
        """
        if self._parts is None:
            raise ZkbrokerError("the broker was not started")
        return self._parts.services

    @property
    def broker_id(self) -> int:
        """Its id; before the start the configured one, which may be -1."""
        return self._config.broker_id if self._parts is None else self._parts.services.broker_id

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that the broker advertises for its first listener."""
        _, host, port = next(iter(self.services.view.own.listeners.values()))
        return host, port

    @property
    def listeners(self) -> tuple[str, ...]:
        """The advertised listeners, `NAME://host:port` each."""
        return self.services.view.own.endpoints

    def start(self) -> None:
        """Start and serve.

        Raises:
            ConfigError, StorageError, RegistryError: it cannot start; nothing is left running.
        """
        started = time.monotonic()
        try:
            self._start()
        except BaseException:
            self._teardown.unwind()
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
        self._teardown.unwind()
        logger.info("broker stopped id=%d", self.broker_id)

    def _start(self) -> None:
        config, teardown = self._config, self._teardown
        # Bound before anything is registered, so that a port in use is noticed first.
        page = None
        if config.admin_port >= 0:
            page = open_metrics_page(config)
            teardown.add("metrics page", page.stop)
        foundation = lay_foundation(self._dynamic, self._runtime, teardown, self.failed)
        teardown.add("server", lambda: foundation.server.stop(self._timeout_s))
        parts = self._parts = compose(foundation)
        self._enter_cluster(parts)
        if config.legacy07.listener:
            self._start_legacy07(parts)
        directory = Path(config.log_manager.log_dirs[0])
        saving = save_often(parts.services.clients, directory, self._runtime)
        teardown.add("client versions", saving)
        if page is not None:
            page.show(
                parts.services,
                transactions=parts.transactions.coordinator.figures,
                server=foundation.server.figures,
                groups=parts.coordination.coordinator.figures,
            )
            teardown.add("metrics", page.hide)
            if self._console is not None and config.admin_console:
                page.mount(self._console(config, parts.services.broker_id, page.json))

    def _start_legacy07(self, parts: BrokerParts) -> None:
        # Imported on demand: few brokers serve clients of 0.7.
        from zkbroker.broker.legacy07 import Legacy07Broker

        legacy07 = Legacy07Broker(
            parts.services, limits(self._config), permissions=parts.authorization.permissions
        )
        legacy07.start()
        parts.services.view.on_topics(lambda topics: legacy07.views.topics_changed())
        self._teardown.add("0.7 listener", lambda: legacy07.close(self._timeout_s))

    def _enter_cluster(self, parts: BrokerParts) -> None:
        foundation, teardown = parts.foundation, self._teardown
        session, patiently = foundation.session, foundation.patiently
        view, replicas, membership = parts.services.view, parts.replicas, parts.membership

        def patience_s() -> float:
            # Without ZooKeeper there is nothing to wait for: the ephemeral nodes end by themselves.
            return 10.0 if session.state is SessionState.CONNECTED else 0.2

        def follow(name: str, watch: WatchLoop[Any]) -> None:
            patiently(watch.start)
            teardown.add(name, lambda: watch.close(patience_s()))

        teardown.add("session state", session.on_state(_log_outage))
        teardown.add("session watch", session.on_state(membership.note_session))
        # Before any request is served: ACLs that are not read yet would refuse clients.
        authorization = parts.authorization
        patiently(authorization.start)
        teardown.add("ACLs", lambda: authorization.close(patience_s()))
        authorization.check_own()
        follow("topics watch", TopicsWatch(session, view.set_topics))
        patiently(lambda: look_for_lost_logs(parts.services, foundation.states))
        patiently(lambda: raise_epochs(parts.services, foundation.states))
        teardown.add("registration", lambda: membership.deregister(patience_s()))
        patiently(membership.start)
        follow("brokers watch", BrokersWatch(session, view.set_brokers))
        parts.writer.start()
        teardown.add("leader states", lambda: parts.writer.close(patience_s()))
        self._dynamic.on_change(lambda now: _reconfigure(parts, now))
        follow("settings watch", BrokerConfigWatch(session, self.broker_id, self._dynamic.take))
        parts.services.users.on_change(lambda _: _reconfigure_connections(parts))
        follow("users watch", UserConfigsWatch(session, parts.services.users.take))
        parts.peers.start()
        teardown.add("other brokers", lambda: parts.peers.close(patience_s()))
        parts.checkpoint.start()
        teardown.add("high watermarks", lambda: parts.checkpoint.close(self._timeout_s))
        teardown.add("fetchers", lambda: parts.copying.fetchers.close(patience_s()))
        replicas.start()
        teardown.add("replicas", lambda: self._stop_replicas(parts, patience_s()))
        readiness = Readiness(self.broker_id, view, replicas, parts.writer)
        # The controller, even this broker's own, reaches it over the network.
        dispatcher = parts.dispatcher
        foundation.server.start(dispatcher.handle, dispatcher.sent, parts.gates)
        teardown.add("controller", lambda: parts.controller.close(patience_s()))
        patiently(parts.controller.start)
        teardown.add("controller watch", membership.close)
        patiently(membership.follow_controller)
        # Closed once others coordinate: until then clients would be sent back to this broker.
        teardown.add("transactions", parts.transactions.close)
        teardown.add("groups", parts.coordination.close)
        teardown.add("leaderships", lambda: self._hand_over(parts))
        if not readiness.wait():
            raise RegistryError(
                "the controller did not send this broker the state of its partitions within "
                f"{STILL_S:g} s: look at the log of the broker that is named in /controller"
                + parts.authorization.hint
            )
        parts.coordination.start()
        parts.transactions.start()

    def _hand_over(self, parts: BrokerParts) -> None:
        if self._config.controlled_shutdown:
            parts.replicas.leave()
        assigned = [each.replicas for each in parts.replicas.all()]
        parts.membership.hand_over(parts.controller, assigned)

    def _stop_replicas(self, parts: BrokerParts, timeout_s: float) -> None:
        replicas = parts.replicas
        # Not earlier: while leaderships are handed over, followers and consumers would fetch from
        # this broker and from its successors without a pause.
        parts.services.draining = True
        for partition in replicas.all():
            partition.waiters.wake()
        # Waiting fetches are answered while this broker still leads the partitions.
        gevent.sleep(ANSWERED_S)
        led = [each.key for each in replicas.led()]
        replicas.close(timeout_s)
        if parts.services.session.state is SessionState.CONNECTED:
            parts.foundation.states.unregister_leader(led)


def _reconfigure(parts: BrokerParts, now: DynamicConfig) -> None:
    """Give the parts the present settings."""
    config = parts.services.config = now.config
    parts.copying.settings_changed(now.changed)
    parts.copying.fetchers.resize(config.replica_fetchers)
    parts.controller.set_unclean_default(config.log.unclean_leader_election)
    server = parts.foundation.server
    server.limits = replace(
        server.limits,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_overrides=config.max_connections_overrides,
    )
    _reconfigure_connections(parts)


def _reconfigure_connections(parts: BrokerParts) -> None:
    """Accept connections at the present rates of the broker and of addresses."""
    services = parts.services
    parts.foundation.server.rates.limits = creation_limits(services.config, services.users.now)


def _log_outage(state: SessionState) -> None:
    if state is SessionState.SUSPENDED:
        logger.warning("ZooKeeper does not answer; partitions are still served")
    elif state is SessionState.CONNECTED:
        logger.info("ZooKeeper answers again")
