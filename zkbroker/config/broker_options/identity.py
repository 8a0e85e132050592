"""The identity of a broker, and how it joins its cluster.

Invariant: a broker keeps these settings from one start to the next, or it is another broker.
"""

from dataclasses import dataclass

from zkbroker.config.levels import LEVEL_SPELLINGS, LEVELS
from zkbroker.config.schema import Bool, Int, Int32, Ms, Str, option, required

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class IdentityOptions:
    """Its id, its ZooKeeper and how it speaks to other brokers."""

    # fmt: off
    broker_id: int = option("broker.id brokerid", Int32(-1), -1,
        "Number of this broker in its cluster; -1 takes the next free one above "
        "`reserved.broker.max.id`.")
    reserved_broker_max_id: int = option("reserved.broker.max.id", Int(0, _INT32_MAX - 1), 1000,
        "Highest broker id given by hand; generated ids begin above it.")
    broker_id_generation: bool = option("broker.id.generation.enable", Bool(), True,
        "Whether a broker without an id takes the next free one.")
    rack: str = option("broker.rack", Str(), "",
        "Rack or zone of this broker, for the assignment of replicas. Where only some brokers have "
        "one, tools and CreateTopics refuse to assign replicas by racks; topics that are created "
        "on demand are placed without regard to racks, and the log warns of it.")
    zookeeper_connect: str = required("zookeeper.connect zk.connect", Str(empty=False),
        "ZooKeeper servers, `host:port` separated by commas, with an optional /chroot.")
    zookeeper_session_timeout_ms: int = option(
        "zookeeper.session.timeout.ms zk.sessiontimeout.ms", Ms(1), 6000,
        "Time in ms after which ZooKeeper considers a silent broker dead.")
    zookeeper_connection_timeout_ms: int = option(
        "zookeeper.connection.timeout.ms zk.connectiontimeout.ms", Ms(-1), -1,
        "Time in ms to reach ZooKeeper at the start; -1 is the session time-out.")
    partition_state_znodes: str = option(
        "partition.state.znodes", Str(choices=("ephemeral", "persistent")), "ephemeral",
        "Whether `/brokers/topics/[t]/partitions/[n]/state` is ephemeral, as in the design "
        "documents, or persistent, as genuine brokers keep it. Set persistent to join a cluster of "
        "genuine brokers.")
    inter_broker_protocol: str = option(
        "inter.broker.protocol.version",
        Str(choices=tuple(LEVELS), spellings=LEVEL_SPELLINGS), "2.3",
        "Version of Kafka that fixes the requests between brokers; all brokers of a cluster need "
        "the same.")
    # fmt: on
