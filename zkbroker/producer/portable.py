"""The fast path into the send queue, for plain messages: bytes with or without a key.

Invariants:
- A message is queued and counted, or neither. A message that is not plain, finds no room, or is the
  first of its topic is left to `SendQueue.put`, which gives the same result in more steps; so
  nothing here waits or is refused.
- A change of the counts or the lists holds `lock`. The C twin takes no lock: it holds the
  interpreter's, runs no Python code between its first read and its last change, and leaves the
  message to `put` while another task holds the lock.

`zkbroker/producer/speedups/` has the twin in C; `intake.py` chooses.
"""

from time import time_ns

from zkbroker.producer.message import KeyedMessage
from zkbroker.producer.queued_messages import QueuedMessages, SendFuture
from zkbroker.runtime import Event, Lock

RECORD_OVERHEAD_BYTES = 40
"""At most what a format adds to a record's key, value and headers."""
NEVER = 2**62
_INT64_MAX = 2**63 - 1


class Intake:
    """The messages that the sender has not taken yet, by topic, and the bounds of open messages.

    Args:
        lock: guards everything below; a mutex that is not re-entrant.
        wake: set when `wake_at` messages are queued.
        max_message_bytes: a larger message is left to `put`, which refuses it.
        limit: bound of open messages; 0 while none are taken.
        max_bytes: bound of their bytes.

    Attributes:
        by_topic: queued messages, in the order in which the topics' first messages came. Its keys
            are of class `str` and were checked when their list began.
        queued: number of queued messages.
        wake_at: the number at which `wake` is set.
        open_messages: messages that are queued or sent, and not resolved.
        open_bytes: their bytes.
    """

    __slots__ = (
        "by_topic",
        "limit",
        "lock",
        "max_bytes",
        "max_message_bytes",
        "open_bytes",
        "open_messages",
        "queued",
        "wake",
        "wake_at",
    )

    def __init__(
        self, lock: Lock, wake: Event, max_message_bytes: int, limit: int, max_bytes: int
    ) -> None:
        self.lock = lock
        self.wake = wake
        self.max_message_bytes = max_message_bytes
        self.limit = limit
        self.max_bytes = max_bytes
        self.by_topic: dict[str, QueuedMessages] = {}
        self.queued = 0
        self.wake_at = 1
        self.open_messages = 0
        self.open_bytes = 0

    def put(self, message: object) -> SendFuture | None:
        """Queue a plain message; return None, and do nothing, where it is left to `put`."""
        if message.__class__ is not KeyedMessage:
            return None
        value, key, topic = message.message, message.key, message.topic
        if (
            value.__class__ is not bytes
            or (key is not None and key.__class__ is not bytes)
            or message.partition is not None
            or message.partition_key is not None
            or message.headers
            or topic.__class__ is not str
        ):
            return None
        size = RECORD_OVERHEAD_BYTES + len(value) + (0 if key is None else len(key))
        if size > self.max_message_bytes:
            return None
        stamp = message.timestamp_ms
        if stamp is None:
            stamp = time_ns() // 1_000_000
        elif stamp.__class__ is not int or not -1 <= stamp <= _INT64_MAX:
            return None
        with self.lock:
            queued = self.by_topic.get(topic)
            if (
                queued is None
                or self.open_messages >= self.limit
                or self.open_bytes + size > self.max_bytes
            ):
                return None
            records = queued.records
            index = len(records)
            try:
                records.append((key, value, stamp, ()))
                queued.sizes.append(size)
                if key is not None:
                    queued.keyless = False
            except BaseException:
                # Ctrl-C may come after any call: queue wholly, or not at all.
                queued.drop(index)
                raise
            self.open_messages += 1
            self.open_bytes += size
            self.queued += 1
            woken = self.queued >= self.wake_at
            if woken:
                self.wake_at = NEVER
        if woken:
            self.wake.set()
        return SendFuture(queued, index)
