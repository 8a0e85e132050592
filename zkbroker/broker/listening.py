"""The listeners of a broker: limits, sockets, and the addresses that it registers.

Invariant: a port that cannot be bound raises an error that tells what to change, before the broker
is registered. The broker registers the ports that it really listens on.
"""

import logging
import socket

from zkbroker.broker.quotas.table import ADDRESS_RATE, given_quota
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.connection_rates import listener_rates
from zkbroker.config.levels import LEVELS
from zkbroker.config.security import PLAINTEXT
from zkbroker.errors import StorageError
from zkbroker.network.server.connection_rates import UNLIMITED, CreationLimits
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.server import Listener, Server
from zkbroker.network.server.tls import ListenersTls
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.user_configs import Default, UserConfigs

logger = logging.getLogger(__name__)


def limits(config: BrokerConfig) -> Limits:
    """Return the limits of single connections and of all together."""
    return Limits(
        max_request_bytes=config.max_request_bytes,
        max_queued_requests=config.queued_max_requests,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_overrides=config.max_connections_overrides,
        busy_poll_s=config.busy_poll_us / 1e6,
        max_idle_s=config.max_idle_ms / 1000,
        max_frame_s=config.max_frame_ms / 1000,
        max_queued_request_bytes=config.queued_max_request_bytes,
        min_bytes_per_s=config.min_request_bytes_per_second,
        max_answer_bytes=config.fetch_conversion_max_bytes,
        send_buffer_bytes=config.send_buffer_bytes,
        receive_buffer_bytes=config.receive_buffer_bytes,
        creation=creation_limits(config, UserConfigs()),
    )


def creation_limits(config: BrokerConfig, users: UserConfigs) -> CreationLimits:
    """Return the limits of connections accepted in a second."""
    names = [endpoint.name for endpoint in config.endpoints]
    addresses: dict[str, float] = {}
    others: float = UNLIMITED
    for entity, settings in users.settings.items():
        if entity.ip is None or (rate := given_quota(settings, ADDRESS_RATE)) is None:
            continue
        if isinstance(entity.ip, Default):
            others = rate
        else:
            addresses[entity.ip] = rate
    return CreationLimits(
        broker=config.max_connection_rate,
        listeners=listener_rates(config.given, names),
        # With a listener of their own, brokers reach each other however many clients connect.
        exempt=config.inter_broker if len(names) > 1 else "",
        addresses=addresses,
        other_addresses=others,
        windows=config.quota_windows,
        window_ms=config.quota_window_s * 1000,
        max_addresses=config.quota_clients,
    )


def listen(config: BrokerConfig, tls: ListenersTls) -> Server:
    """Bind every listener; connections are accepted once the server is started.

    Raises:
        StorageError: a port cannot be bound.
    """
    server = Server(
        [Listener(each.name, each.host, each.port, each.protocol) for each in config.endpoints],
        limits(config),
        transport=tls.transport if tls.names else None,
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
    return server


def registration(config: BrokerConfig, broker_id: int, server: Server) -> BrokerInfo:
    """Return the broker's registration, with the ports that it listens on."""
    advertised = config.advertised_endpoints(server.addresses, socket.getfqdn)
    main = next((each for each in advertised if each.protocol == PLAINTEXT), advertised[0])
    return BrokerInfo(
        id=broker_id,
        host=main.host,
        port=main.port,
        protocols=tuple((each.name, each.protocol) for each in advertised),
        rack=config.rack or None,
        endpoints=tuple(str(each) for each in advertised),
        level="" if config.inter_broker_protocol == LEVELS[-1] else config.inter_broker_protocol,
    )


def local_address(server: Server, listener: str) -> tuple[str, int]:
    """Return host and port under which this machine reaches a listener."""
    host, port = server.addresses[listener]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104
