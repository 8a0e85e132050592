"""The whole 0.7 listener: logs, server and registry, started and stopped in order.

    start: logs recovered -> listen -> registered -> views follow -> serve
    stop:  deregister -> answer requests in flight -> flush and close logs, clean marker

Invariant: a failed start is undone and raises.
"""

import logging
import socket
from collections.abc import Callable

from zkbroker.broker.guard import Permissions
from zkbroker.broker.legacy07.handlers import Handlers07
from zkbroker.broker.legacy07.views import Views07
from zkbroker.broker.services import BrokerServices
from zkbroker.errors import StorageError
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server
from zkbroker.records.legacy07 import Limits07
from zkbroker.registry.legacy07 import Registration07
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)


class Legacy07Broker:
    """Serves clients of Kafka 0.7; runs on the hub of the thread that starts it.

    Args:
        services: of its node; `config.legacy07` has a listener.
        limits: of its connections.
        permissions: of the node; None if every client may do everything.
    """

    def __init__(
        self,
        services: BrokerServices,
        limits: Limits,
        permissions: Permissions | None = None,
    ) -> None:
        self._config = config = services.config
        self._runtime = runtime = services.runtime
        own = config.legacy07
        self.broker_id = own.broker_id if own.broker_id >= 0 else services.broker_id
        self.logs = Legacy07Logs(
            own,
            runtime=runtime,
            now_ms=runtime.now_ms,
            masters=lambda topic, number: self.views.master(topic, number),
        )
        self.views = Views07(own, services, self.logs, self.broker_id)
        checks = Limits07(
            max_payload_bytes=own.max_message_bytes,
            max_decompressed_bytes=config.max_decompressed_bytes,
            max_messages=config.max_request_records,
        )
        self._handlers = Handlers07(
            self.logs, checks, runtime, views=self.views, permissions=permissions
        )
        self._endpoint = own.endpoint
        self._server = Server(
            [Listener(self._endpoint.name, self._endpoint.host, self._endpoint.port)],
            limits,
        )
        self._undo: list[Callable[[], object]] = []
        self._timeout_s = 0.0

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it listens on."""
        return self._server.addresses[self._endpoint.name]

    def start(self) -> None:
        """Recover the logs, listen, register and serve.

        Raises:
            StorageError: the directory or the port cannot be used.
            RegistryError: it cannot be registered.
        """
        try:
            self._start()
        except BaseException:
            self.close(0)
            raise
        logger.info(
            "0.7 listener started id=%d address=%s:%d logs=%d",
            self.broker_id,
            *self.address,
            len(self.logs.all()),
        )

    def close(self, timeout_s: float) -> None:
        """Stop in order; requests in flight get `timeout_s`."""
        self._timeout_s = timeout_s
        while self._undo:
            self._undo.pop()()

    def _start(self) -> None:
        self.logs.start()
        self._undo.append(self.logs.close)
        self._undo.append(self.views.close)
        self.views.check()
        try:
            self._server.listen()
        except OSError as error:
            raise StorageError(
                f"cannot listen on {self._endpoint}: {error.strerror or error}; stop what uses the "
                "port, or set another legacy07.listener"
            ) from error
        self._undo.append(lambda: self._server.stop(self._timeout_s))
        self._register()
        self.views.start()
        self._server.start(self._handlers.handle)

    def _register(self) -> None:
        config = self._config
        chroot = config.legacy07.chroot.rstrip("/")
        session = ZkSession(
            config.zookeeper_connect.partition("/")[0] + chroot,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connect_timeout_ms=(
                None
                if config.zookeeper_connection_timeout_ms < 0
                else config.zookeeper_connection_timeout_ms
            ),
            runtime=self._runtime,
            security=config.zookeeper_security(),
        )
        session.start()
        self._undo.append(session.close)
        host, port = self._advertised_address()
        registration = Registration07(
            session,
            self.broker_id,
            host,
            port,
            lambda: {topic: self.logs.partitions(topic) for topic in self.logs.topics},
            self._runtime.now_ms,
        )
        self._undo.append(registration.close)
        self.logs.on_new_topic = registration.topic_made
        registration.start()

    def _advertised_address(self) -> tuple[str, int]:
        """Return the host and port that clients get."""
        advertised = self._config.legacy07.advertised
        host = advertised.host
        if host in ("", "0.0.0.0"):  # noqa: S104 - replaced, not bound
            host = self._config.host or socket.getfqdn()
        return host, advertised.port or self.address[1]
