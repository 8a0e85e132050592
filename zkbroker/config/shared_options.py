"""Settings that mean the same in several clients, whatever their generation.

    linger_ms: int = LINGER_MS("queue.buffering.max.ms queue.time linger.ms")
    linger_ms: int = LINGER_MS("queue.time queue.buffering.max.ms", 1_000)

Invariant: the kind, the default and the description of a setting stand here once. A client gives
the names, its own generation's first, since the first one that is set wins; it gives a default
where its generation has another one.
"""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from zkbroker.config.schema import Bool, Int, Int32, Ms, OptionKind, Str, StrList, option, required

T = TypeVar("T")

READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"
SMALLEST: Final = "smallest"
LARGEST: Final = "largest"
FAIL: Final = "fail"
NEWER_RESET: Final = {"earliest": SMALLEST, "latest": LARGEST, "none": FAIL}
"""Where consumers of groups with a coordinator start, in the words of older ones."""

KEPT_CURRENT: Final = dict.fromkeys(
    ("zk.read.num.retries", "zk.synctime.ms", "zookeeper.sync.time.ms"),
    "watches keep the topic's partitions current",
)
"""Keys without effect by which 0.7's producer learned of partitions: part of `IGNORED`."""


@dataclass(frozen=True, slots=True)
class Shared(Generic[T]):
    """A setting that several clients share; a call declares it for one of them.

    Args:
        kind: what values it takes.
        default: where a client gives none.
        doc: its text in the reference manual.
    """

    kind: OptionKind[T]
    default: T
    doc: str

    def __call__(self, names: str, default: T | None = None) -> T:
        """Declare it under these names, separated by spaces."""
        return option(names, self.kind, self.default if default is None else default, self.doc)


def group_id(names: str) -> str:
    """Declare the group of a member in ZooKeeper; it must be given."""
    doc = "Name of the consumer group; its members share the partitions."
    return required(names, Str(empty=False), doc)


# fmt: off
# -- of producers
CONNECT_TIMEOUT_MS = Shared(Int32(1), 5_000,
    "How long to wait for a connection to a broker, in ms.")
SEND_BUFFER_BYTES = Shared(Int32(-1), 100 * 1024,
    "Send buffer of the sockets, in bytes; -1 leaves the system's.")
PRODUCER_SESSION_MS = Shared(Int32(1), 6_000, "Time-out of the ZooKeeper session, in ms.")
PRODUCER_ZOOKEEPER_MS = Shared(Int32(1), 6_000,
    "How long to wait for ZooKeeper at the start, in ms.")
LINGER_MS = Shared(Int32(0), 5_000,
    "How long a message may wait in async mode for others to share its batch, in ms.")
ENQUEUE_TIMEOUT_MS = Shared(Int32(-1), -1,
    "How long send waits while the queue is full, in ms: 0 fails at once, -1 waits as long as it "
    "takes.")
COMPRESSED_TOPICS: Shared[tuple[str, ...]] = Shared(StrList(), (),
    "Topics to compress; all where the list is empty.")
EVENT_HANDLER_PROPERTIES = Shared(Str(), "", "Properties file given to the event handler's init.")
CALLBACK_HANDLER_PROPERTIES = Shared(Str(), "",
    "Properties file given to the callback handler's init.")

# -- of consumers
CONSUMER_SESSION_MS = Shared(Ms(100), 6_000,
    "Time-out of this member's ZooKeeper session, in ms; after it others take its partitions.")
CONSUMER_ID = Shared(Str(), "", "Replaces the generated host-time-random part of this member's id.")
CONSUMER_TIMEOUT_MS = Shared(Ms(-1), -1,
    "Time in ms without a message after which a stream raises ConsumerTimeout; -1 waits for ever.")
REBALANCE_DRAIN_MS = Shared(Ms(0), 300,
    "How long a rebalance waits for messages in hand, in ms, so that they are not redelivered.")
REBALANCE_RETRIES = Shared(Int(0), 4,
    "Attempts at one rebalance before a warning is logged; the attempts continue after it.")
QUEUED_CHUNKS = Shared(Int(1), 2,
    "Most fetched chunks that wait in one stream; each partition may always have one.")
AUTO_COMMIT = Shared(Bool(), True,
    "Whether the offsets of consumed messages are committed regularly.")
AUTO_COMMIT_MS = Shared(Ms(1), 60_000, "Time between two automatic commits.")
OFFSET_RESET = Shared(
    Str((SMALLEST, LARGEST, FAIL), spellings=NEWER_RESET), LARGEST,
    "Where to start when the group has no offset, or one outside the log.")
FETCH_BYTES = Shared(Int32(1), 1024 * 1024, "Bytes asked of one partition in one fetch.")
FETCH_LIMIT_BYTES = Shared(Int32(1), 64 * 1024 * 1024,
    "Size in bytes up to which the fetch size is doubled for a message that does not fit.")
FETCH_MIN_BYTES = Shared(Int32(0), 1,
    "Bytes that a fetch waits for; after its longest wait it returns fewer.")
FETCH_WAIT_MS = Shared(Int32(0), 100,
    "Longest time that a fetch waits for these bytes, in ms.")
EXCLUDE_INTERNAL_TOPICS = Shared(Bool(), True,
    "Whether patterns of topics exclude internal topics such as __consumer_offsets.")
ISOLATION_LEVEL = Shared(Str((READ_UNCOMMITTED, READ_COMMITTED)), READ_UNCOMMITTED,
    "Whether messages of aborted and open transactions are read.")
# fmt: on
