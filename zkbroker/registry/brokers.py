"""Broker registrations: `/brokers/ids/[id]` and generated ids.

    {"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","EXTERNAL":"SSL"},
     "endpoints":["PLAINTEXT://host:port","EXTERNAL://host:port"],"rack":…,"jmx_port":-1,
     "host":…,"timestamp":"ms","port":…,"version":4}

Host and port are those of the first PLAINTEXT listener, `null` and -1 without one.

Versions 1 (host and port) to 5 are read, and version 4 is written, with "inter_broker_protocol" if
that is not our latest: genuine brokers ignore unknown fields. The node is ephemeral: while it
exists, other brokers and clients take the broker to be alive.
"""

import contextlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zkbroker.config.security import PLAINTEXT
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import int32, read_json, tell_unreadable, write_json
from zkbroker.registry.optional_nodes import children
from zkbroker.zookeeper.errors import NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)

RESERVED_MAX_ID = 1000
ENDPOINTS_SINCE = 2
"""The first version of a registration that brokers of 0.9 and later write; 0.8.2 writes 1."""
MAX_HOST = 255
"""Bytes; the longest name in DNS."""
MAX_RACK = 1000
MAX_LEVEL = 20
_MAX_ID = 2**31 - 1
_ID = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """The registration of a broker.

    Attributes:
        id: the broker id.
        host: the advertised host of the first PLAINTEXT listener, or else of the first listener,
            without brackets for IPv6.
        port: its port.
        rack: the rack of the broker, if one is configured.
        endpoints: `LISTENER://host:port` of every listener; derived from host and port if empty.
        jmx_port: -1 for none.
        protocols: listener names with their security protocols; a listener that is missing here
            has the name of its protocol.
        timestamp_ms: when the broker registered.
        version: of the JSON that was read; version 4 is written.
        level: `inter.broker.protocol.version` of a broker of ours; empty for the latest, and for
            genuine brokers.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    jmx_port: int = -1
    protocols: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    timestamp_ms: int = field(default=0, compare=False)
    version: int = field(default=4, compare=False)
    level: str = ""
    listeners: Mapping[str, tuple[str, str, int]] = field(init=False, compare=False, repr=False)
    """Listener name → security protocol, host and port, in the order of the endpoints."""

    def __post_init__(self) -> None:
        if not self.endpoints:
            object.__setattr__(self, "endpoints", (f"PLAINTEXT://{self.address}",))
        protocols = dict(self.protocols)
        found = {}
        for endpoint in self.endpoints:
            name = endpoint.partition("://")[0]
            found[name] = (protocols.get(name, name), *_host_port(endpoint))
        object.__setattr__(self, "listeners", found)

    @property
    def protocols_spoken(self) -> tuple[str, ...]:
        """The security protocols of the listeners."""
        return tuple(protocol for protocol, _, _ in self.listeners.values())

    def endpoint_of(self, protocol: str) -> tuple[str, int] | None:
        """Return host and port of the first listener of a security protocol, None without one."""
        for spoken, host, port in self.listeners.values():
            if spoken == protocol:
                return host, port
        return None

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def to_json(self) -> bytes:
        """Return the node's data, version 4."""
        # Clients that use the single host and port speak PLAINTEXT.
        plain = self.endpoint_of(PLAINTEXT)
        data: dict[str, Any] = {
            "listener_security_protocol_map": {
                name: protocol for name, (protocol, _, _) in self.listeners.items()
            },
            "endpoints": list(self.endpoints),
        }
        if self.rack is not None:
            data["rack"] = self.rack
        if self.level:
            data["inter_broker_protocol"] = self.level
        data |= {
            "jmx_port": self.jmx_port,
            "host": None if plain is None else plain[0],
            "timestamp": str(self.timestamp_ms or int(time.time() * 1000)),
            "port": -1 if plain is None else plain[1],
            "version": 4,
        }
        return write_json(data)

    @classmethod
    def from_json(cls, broker_id: int, data: bytes) -> "BrokerInfo":
        """Read a node's data, version 1 to 5.

        Raises:
            RegistryError: the data is not a broker registration.
        """
        try:
            node = read_json(data)
            endpoints = tuple(_endpoint(str(each)) for each in node.get("endpoints") or ())
            host, port = node.get("host"), int32(node.get("port") or -1)
            if not host or port < 0:
                # Since version 2, a broker without a PLAINTEXT listener leaves these empty.
                host, port = _host_port(endpoints[0])
            rack = node.get("rack")
            return cls(
                id=broker_id,
                host=_text(host, MAX_HOST),
                port=_port(port),
                rack=None if rack is None else _text(rack, MAX_RACK),
                endpoints=endpoints,
                jmx_port=int32(node.get("jmx_port", -1)),
                protocols=tuple(
                    (str(name), str(protocol))
                    for name, protocol in (node.get("listener_security_protocol_map") or {}).items()
                ),
                timestamp_ms=int(node.get("timestamp") or 0),
                version=int32(node.get("version", 1)),
                level=_text(node.get("inter_broker_protocol", ""), MAX_LEVEL),
            )
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise RegistryError(
                f"{paths.broker(broker_id)} holds no broker registration: {data[:200]!r}"
            ) from error


def _text(value: object, most: int) -> str:
    """Check that a text fits into answers to clients."""
    text = str(value)
    if len(text.encode()) > most:
        raise ValueError(f"a text of more than {most} bytes")
    return text


def _port(number: int) -> int:
    if number not in range(65536):
        raise ValueError(f"{number} is no port")
    return number


def _endpoint(text: str) -> str:
    """Check that an endpoint fits into the controller's requests."""
    _port(_host_port(_text(text, 2 * MAX_HOST))[1])
    return text


def _host_port(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.partition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def list_brokers(session: ZkSession, watch: Settable | None = None) -> dict[int, BrokerInfo]:
    """Return the live brokers by id, in order of their ids; see `live_brokers`."""
    return {broker_id: info for broker_id, (info, _) in live_brokers(session, watch).items()}


def live_brokers(
    session: ZkSession, watch: Settable | None = None
) -> dict[int, tuple[BrokerInfo, int]]:
    """Return the live brokers by id, in order of their ids, each with its broker epoch.

    The epoch is the id of the transaction in which the broker registered: it grows with each
    registration. The watch fires when a broker registers, registers again or goes away. A
    registration that cannot be read, or does not fit into answers, is left out with a warning, so
    that it does not hide the others.
    """
    ids = []
    for name in children(session, paths.BROKER_IDS, watch):
        if _ID.fullmatch(name) and int(name) <= _MAX_ID:
            ids.append(int(name))
        else:
            tell_unreadable(session, logger, "broker registration", f"{paths.BROKER_IDS}/{name}")
    ids.sort()
    watches = None if watch is None else [watch] * len(ids)
    found: dict[int, tuple[BrokerInfo, int]] = {}
    for broker_id, node in zip(
        ids, session.get_many([paths.broker(i) for i in ids], watches), strict=True
    ):
        if node is None:
            continue
        try:
            found[broker_id] = BrokerInfo.from_json(broker_id, node[0]), node[1].czxid
        except RegistryError as error:
            tell_unreadable(session, logger, "broker registration", error)
    return found


class BrokersWatch(WatchLoop[dict[int, BrokerInfo]]):
    """Keeps the list of live brokers up to date; see `WatchLoop`."""

    def __init__(
        self, session: ZkSession, on_change: Callable[[dict[int, BrokerInfo]], object]
    ) -> None:
        super().__init__(
            session, lambda watch: list_brokers(session, watch), on_change, name="watch-brokers"
        )


def next_broker_id(session: ZkSession, reserved_max: int = RESERVED_MAX_ID) -> int:
    """Generate a broker id above `reserved_max`, unique in the cluster.

    It adds the version of `/brokers/seqid` after a write to that node, as genuine brokers do.
    """
    session.ensure_path(paths.BROKER_SEQID)
    return reserved_max + session.set(paths.BROKER_SEQID, b"").version


def prepare_tree(session: ZkSession) -> None:
    """Create the persistent nodes that tools expect to find."""
    for path in paths.PERSISTENT:
        session.ensure_path(path)


def deregister_broker(session: ZkSession, broker_id: int) -> None:
    """Remove the registration if this session made it."""
    path = paths.broker(broker_id)
    stat = session.exists(path)
    if stat is not None and stat.ephemeral_owner == session.session_id:
        with contextlib.suppress(NoNode):
            session.delete(path)
