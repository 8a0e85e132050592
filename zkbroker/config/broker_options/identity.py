"""Who a broker is, and which cluster it joins in which way.

Invariant: these are the same from one start of a broker to the next, or it is another broker.
"""

from dataclasses import dataclass

from zkbroker.config.levels import LEVEL_SPELLINGS, LEVELS
from zkbroker.config.schema import Bool, Int, Str, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class IdentityOptions:
    """Its id, its ZooKeeper and how it speaks to other brokers."""

    broker_id: int = option(
        "broker.id",
        "brokerid",
        default=-1,
        kind=Int(-1, _INT32_MAX),
        doc="Number of this broker in its cluster; -1 takes the next free one above "
        "`reserved.broker.max.id`.",
    )
    reserved_broker_max_id: int = option(
        "reserved.broker.max.id",
        default=1000,
        kind=Int(0, _INT32_MAX - 1),
        doc="Highest broker id given by hand; generated ids begin above it.",
    )
    broker_id_generation: bool = option(
        "broker.id.generation.enable",
        default=True,
        kind=Bool(),
        doc="Whether a broker without an id takes the next free one.",
    )
    rack: str = option(
        "broker.rack",
        default="",
        kind=Str(),
        doc="Rack or zone of this broker, for the assignment of replicas. Where only some brokers "
        "name one, tools and CreateTopics refuse to assign replicas by racks; topics that are "
        "created on demand are placed without regard to racks, with a warning in the log.",
    )
    zookeeper_connect: str = option(
        "zookeeper.connect",
        "zk.connect",
        kind=Str(empty=False),
        doc="ZooKeeper servers, `host:port` separated by commas, with an optional /chroot.",
    )
    zookeeper_session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms",
        "zk.sessiontimeout.ms",
        default=6000,
        kind=Int(1),
        doc="Time in ms after which ZooKeeper takes a silent broker for dead.",
    )
    zookeeper_connection_timeout_ms: int = option(
        "zookeeper.connection.timeout.ms",
        "zk.connectiontimeout.ms",
        default=-1,
        kind=Int(-1),
        doc="Time in ms to reach ZooKeeper at the start; -1 is the session time-out.",
    )
    partition_state_znodes: str = option(
        "partition.state.znodes",
        default="ephemeral",
        kind=Str(choices=("ephemeral", "persistent")),
        doc="How leaders stand in `/brokers/topics/[t]/partitions/[n]/state`: ephemeral, as the "
        "design documents have it, or persistent, as genuine brokers keep it (set it to join a "
        "cluster of those).",
    )
    inter_broker_protocol: str = option(
        "inter.broker.protocol.version",
        default="2.3",
        kind=Str(choices=tuple(LEVELS), spellings=LEVEL_SPELLINGS),
        doc="Which versions of requests brokers send each other; the same at every broker of a "
        "cluster.",
    )
