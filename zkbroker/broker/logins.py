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


def login_gates(
    config: BrokerConfig,
    services: BrokerServices,
    handle: Callable[[Session, memoryview], Sequence[Part] | None],
    make_secret: Callable[[], bytes],
) -> dict[str, Gate]:
    """Return the gates of a broker's listeners, by the name of the listener.

    Args:
        config: of the broker.
        services: its users and metrics.
        handle: the dispatcher: answers a request.
        make_secret: returns a secret, the same at all brokers, for the salts of users that do not
            exist; called if users log in by SCRAM.

    Raises:
        ConfigError: no login could succeed on a listener.
    """
    settings = {
        name: each.sasl for name, each in config.security.listeners.items() if each.sasl is not None
    }
    if not settings:
        return {}
    delay_s = config.failed_login_delay_ms / 1000
    runtime, validating = services.runtime, BoundedSemaphore(_VALIDATED_AT_ONCE)

    def wait(session: Session) -> None:
        if delay_s > 0:
            woken = Event()
            with session.parked(woken.set):
                woken.wait(delay_s)

    def offload(function: Callable[[], bytes]) -> bytes:
        with validating:
            return runtime.offload(function)

    credentials = ScramCredentials()
    services.users.on_change(credentials.take)
    by_scram = any(each.name in HASHES for sasl in settings.values() for each in sasl.mechanisms)
    secret = ScramSecret(make_secret() if by_scram else b"")
    # The keys of tokens may be fetched over a network.
    mechanisms = {
        name: runtime.offload(broker_mechanisms, sasl, credentials, secret)
        for name, sasl in settings.items()
    }
    gate = LoginGate(
        mechanisms,
        handle,
        max_frame_bytes=config.max_request_bytes,
        wait=wait,
        offload=offload,
        metrics=services.metrics,
    )
    longest = min(MAX_LOGIN_BYTES, config.max_request_bytes)
    within_s = config.login_timeout_ms / 1000
    return {name: Gate(gate.handle, longest, within_s) for name in settings}
