"""Broker registrations: `/brokers/ids/[id]` and generated ids.

    {"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},
     "endpoints":["PLAINTEXT://host:port"],"rack":…,"jmx_port":-1,
     "host":…,"timestamp":"ms","port":…,"version":4}

Versions 1 (host and port) to 5 are read, version 4 is written. The node is ephemeral; its presence
is what "the broker is alive" means to everybody else.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.errors import NoNode
from zkbroker.registry.nodes import Settable
from zkbroker.registry.session import ZkSession
from zkbroker.registry.watching import WatchLoop

logger = logging.getLogger(__name__)

RESERVED_MAX_ID = 1000


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """Where a broker listens.

    Attributes:
        id: the broker id.
        host: the advertised host of the plain listener, without brackets for IPv6.
        port: its port.
        rack: where the broker stands, if that was configured.
        endpoints: `PROTOCOL://host:port` of every listener; derived from host and port if empty.
        jmx_port: -1 for none.
        timestamp_ms: when the broker registered.
        version: the version of the JSON that was read or is to be written.
    """

    id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[str, ...] = ()
    jmx_port: int = -1
    timestamp_ms: int = field(default=0, compare=False)
    version: int = field(default=4, compare=False)

    def __post_init__(self) -> None:
        if not self.endpoints:
            object.__setattr__(self, "endpoints", (f"PLAINTEXT://{self.address}",))

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def to_json(self) -> bytes:
        """Return the node's data, version 4."""
        names = [endpoint.partition("://")[0] for endpoint in self.endpoints]
        data: dict[str, Any] = {
            "listener_security_protocol_map": dict.fromkeys(names, "PLAINTEXT"),
            "endpoints": list(self.endpoints),
        }
        if self.rack is not None:
            data["rack"] = self.rack
        data |= {
            "jmx_port": self.jmx_port,
            "host": self.host,
            "timestamp": str(self.timestamp_ms or int(time.time() * 1000)),
            "port": self.port,
            "version": 4,
        }
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, broker_id: int, data: bytes) -> "BrokerInfo":
        """Read a node's data, version 1 to 5.

        Raises:
            RegistryError: it is not a broker registration.
        """
        try:
            node = json.loads(data)
            endpoints = tuple(str(endpoint) for endpoint in node.get("endpoints") or ())
            host, port = node.get("host"), int(node.get("port") or -1)
            if not host or port < 0:
                # A broker without a plain listener leaves these empty from version 2 on.
                host, port = _host_port(endpoints[0])
            rack = node.get("rack")
            return cls(
                id=broker_id,
                host=str(host),
                port=port,
                rack=None if rack is None else str(rack),
                endpoints=endpoints,
                jmx_port=int(node.get("jmx_port", -1)),
                timestamp_ms=int(node.get("timestamp") or 0),
                version=int(node.get("version", 1)),
            )
        except (ValueError, TypeError, AttributeError, IndexError) as error:
            raise RegistryError(
                f"{paths.broker(broker_id)} holds no broker registration: {data[:200]!r}"
            ) from error


def _host_port(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.partition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def broker(session: ZkSession, broker_id: int, watch: Settable | None = None) -> BrokerInfo | None:
    """Return one registration, None when the broker is not there."""
    try:
        return BrokerInfo.from_json(broker_id, session.get(paths.broker(broker_id), watch)[0])
    except NoNode:
        return None


def list_brokers(session: ZkSession, watch: Settable | None = None) -> dict[int, BrokerInfo]:
    """Return the live brokers by id, in order of their ids.

    The watch is set when a broker comes, goes or registers anew. A registration that cannot be
    read is left out with a warning, since it must not hide the others.
    """
    try:
        names = session.children(paths.BROKER_IDS, watch)
    except NoNode:
        if watch is not None:
            session.ensure_path(paths.BROKER_IDS)
            session.children(paths.BROKER_IDS, watch)
        return {}
    ids = sorted(int(name) for name in names if name.isdecimal())
    watches = None if watch is None else [watch] * len(ids)
    found: dict[int, BrokerInfo] = {}
    for broker_id, node in zip(
        ids, session.get_many([paths.broker(i) for i in ids], watches), strict=True
    ):
        if node is None:
            continue
        try:
            found[broker_id] = BrokerInfo.from_json(broker_id, node[0])
        except RegistryError as error:
            logger.warning("broker registration unreadable error=%s", error)
    return found


class BrokersWatch(WatchLoop[dict[int, BrokerInfo]]):
    """Keep the list of live brokers up to date; see `WatchLoop`."""

    def __init__(
        self, session: ZkSession, on_change: Callable[[dict[int, BrokerInfo]], object]
    ) -> None:
        super().__init__(
            session, lambda watch: list_brokers(session, watch), on_change, name="watch-brokers"
        )


def next_broker_id(session: ZkSession, reserved_max: int = RESERVED_MAX_ID) -> int:
    """Generate a broker id above `reserved_max`, unique in the cluster.

    The number is the node version of `/brokers/seqid` after writing it, as genuine brokers do.
    """
    session.ensure_path(paths.BROKER_SEQID)
    return reserved_max + session.set(paths.BROKER_SEQID, b"").version


def prepare_tree(session: ZkSession) -> None:
    """Create the persistent nodes that tools expect to find."""
    for path in paths.PERSISTENT:
        session.ensure_path(path)


def deregister_broker(session: ZkSession, broker_id: int) -> None:
    """Remove the registration if it is this session's own."""
    path = paths.broker(broker_id)
    stat = session.exists(path)
    if stat is not None and stat.ephemeral_owner == session.session_id:
        with contextlib.suppress(NoNode):
            session.delete(path)
