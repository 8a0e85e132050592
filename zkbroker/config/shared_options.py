"""Options that mean the same in several clients' configurations, whatever their generation.

Invariant: default, bounds and text stand here once; a configuration gives the spellings, since the
first one counts when several are given, and that is its own generation's.
"""

from typing import Any, Final

from zkbroker.config.schema import Int, Str, option

_FOREVER = 2**31 - 1
READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"

KEPT_CURRENT: Final = dict.fromkeys(
    ("zk.read.num.retries", "zk.synctime.ms", "zookeeper.sync.time.ms"),
    "watches keep the topic's partitions current",
)
"""How 0.7's producer learned of partitions, without effect: part of a configuration's `IGNORED`."""


# -- of producers


def broker_connect_timeout_ms() -> Any:
    """How long a producer waits for a connection."""
    return option(
        "connect.timeout.ms",
        default=5_000,
        kind=Int(1, _FOREVER),
        doc="How long to wait for a connection to a broker, in ms.",
    )


def send_buffer_bytes(*keys: str) -> Any:
    """SO_SNDBUF of a producer's sockets."""
    return option(
        *keys,
        default=100 * 1024,
        kind=Int(-1, _FOREVER),
        doc="Send buffer of the sockets, in bytes; -1 leaves the system's.",
    )


def producer_session_timeout_ms(*keys: str) -> Any:
    """ZooKeeper session of a producer."""
    return option(
        *keys,
        default=6_000,
        kind=Int(1, _FOREVER),
        doc="Time-out of the ZooKeeper session, in ms.",
    )


def producer_zookeeper_timeout_ms(*keys: str) -> Any:
    """How long a producer's start waits for ZooKeeper."""
    return option(
        *keys,
        default=6_000,
        kind=Int(1, _FOREVER),
        doc="How long to wait for ZooKeeper at the start, in ms.",
    )


def event_handler_properties() -> Any:
    """What an event handler is made with."""
    return option(
        "event.handler.props",
        default="",
        kind=Str(),
        doc="Properties file given to the event handler's init.",
    )


def callback_handler_properties() -> Any:
    """What a callback handler is made with."""
    return option(
        "callback.handler.props",
        default="",
        kind=Str(),
        doc="Properties file given to the callback handler's init.",
    )


# -- of consumers


def consumer_session_timeout_ms(*keys: str) -> Any:
    """ZooKeeper session of a member of a group."""
    return option(
        *keys,
        default=6_000,
        kind=Int(100),
        doc="How long ZooKeeper waits for this member before it gives its partitions away.",
    )


def group_id(*keys: str) -> Any:
    """The group of a member in ZooKeeper."""
    return option(
        *keys,
        kind=Str(empty=False),
        doc="Name of the consumer group; its members share the partitions.",
    )


def consumer_id(*keys: str) -> Any:
    """What a member is called."""
    return option(
        *keys,
        default="",
        kind=Str(),
        doc="Replaces the generated host-time-random part of this member's id.",
    )


def consumer_timeout_ms() -> Any:
    """How long a stream waits for a message."""
    return option(
        "consumer.timeout.ms",
        default=-1,
        kind=Int(-1),
        doc="A stream without a message for so long raises ConsumerTimeout; -1 waits for ever.",
    )


def rebalance_drain_ms() -> Any:
    """How long a rebalance waits for a stream's reader."""
    return option(
        "rebalance.drain.ms",
        default=300,
        kind=Int(0),
        doc="How long a rebalance waits for messages in hand, so that they are not redelivered.",
    )


def isolation_level() -> Any:
    """What of transactions is read."""
    return option(
        "isolation.level",
        default=READ_UNCOMMITTED,
        kind=Str((READ_UNCOMMITTED, READ_COMMITTED)),
        doc="Whether messages of transactions that were aborted, or are open, are read.",
    )
