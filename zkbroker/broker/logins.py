"""The logins of a broker: on which listeners, by which mechanisms, and of which users.

    settings of listeners --> mechanisms --> a gate in front of the dispatcher
    ZooKeeper (`services.users`) --> credentials in memory

Invariant: listeners without logins have no gate. A token is validated in the thread pool, a few at
a time, so that validators that hang do not block other work.
"""

from collections.abc import Callable, Sequence

from gevent.event import Event
from gevent.lock import BoundedSemaphore

from zkbroker.broker.authentication import MAX_LOGIN_BYTES, LoginGate
from zkbroker.broker.services import BrokerServices
from zkbroker.config.broker import BrokerConfig
from zkbroker.network.server.server import Gate, Session
from zkbroker.network.transport import Part
from zkbroker.registry.scram_users import ScramCredentials
from zkbroker.security.sasl.broker_mechanisms import broker_mechanisms
from zkbroker.security.sasl.scram import HASHES
from zkbroker.security.sasl.scram_server import ScramSecret

_VALIDATED_AT_ONCE = 4


class Logins:
    """Makes the gates of a broker's listeners.

    Args:
        config: of the broker.
        services: its users and metrics.
        handle: the dispatcher: answers a request.
        make_secret: returns a secret, the same at all brokers, for the salts of users that do not
            exist; called if users log in by SCRAM.

    Raises:
        ConfigError: no login could succeed on a listener.
    """

    def __init__(
        self,
        config: BrokerConfig,
        services: BrokerServices,
        handle: Callable[[Session, memoryview], Sequence[Part] | None],
        make_secret: Callable[[], bytes],
    ) -> None:
        self._delay_s = config.failed_login_delay_ms / 1000
        self._runtime = services.runtime
        self._validating = BoundedSemaphore(_VALIDATED_AT_ONCE)
        self.gates: dict[str, Gate] = {}
        """Name of a listener → its gate."""
        settings = {
            name: each.sasl
            for name, each in config.security.listeners.items()
            if each.sasl is not None
        }
        if not settings:
            return
        credentials = ScramCredentials()
        services.users.on_change(credentials.take)
        by_scram = any(
            each.name in HASHES for sasl in settings.values() for each in sasl.mechanisms
        )
        secret = ScramSecret(make_secret() if by_scram else b"")
        # The keys of tokens may be fetched over a network.
        mechanisms = {
            name: self._runtime.offload(broker_mechanisms, sasl, credentials, secret)
            for name, sasl in settings.items()
        }
        gate = LoginGate(
            mechanisms,
            handle,
            max_frame_bytes=config.max_request_bytes,
            wait=self._wait,
            offload=self._offload,
            metrics=services.metrics,
        )
        longest = min(MAX_LOGIN_BYTES, config.max_request_bytes)
        within_s = config.login_timeout_ms / 1000
        self.gates = {name: Gate(gate.handle, longest, within_s) for name in settings}

    def _wait(self, session: Session) -> None:
        if self._delay_s > 0:
            woken = Event()
            with session.parked(woken.set):
                woken.wait(self._delay_s)

    def _offload(self, function: Callable[[], bytes]) -> bytes:
        with self._validating:
            return self._runtime.offload(function)
