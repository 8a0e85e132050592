"""Waiting for outcomes: of a sync `send`, of a `flush`, of the end.

Invariant: each wait is bounded, and its result or error names every message that failed.
"""

import logging
import time
from collections.abc import Iterable, Sequence

from zkbroker.client import Cluster
from zkbroker.producer.errors import Cancelled, ProducerClosed, SendFailed
from zkbroker.producer.message import KeyedMessage, RecordMetadata
from zkbroker.producer.queued_messages import QueuedMessages, SendFuture
from zkbroker.producer.sender import Sender

logger = logging.getLogger(__name__)

_CANCEL_SHARE = 0.1
_CANCEL_MOST_S = 1.0

Failures = list[tuple[KeyedMessage, BaseException]]


def wait_for(
    futures: Sequence[SendFuture], refused: Sequence[tuple[KeyedMessage, BaseException]] = ()
) -> list[RecordMetadata]:
    """Return where the messages of a sync `send` are stored.

    Args:
        futures: of the messages that were queued.
        refused: messages that were not queued, and why.

    Raises:
        SendFailed: one of them is not stored.
    """
    sent: list[tuple[KeyedMessage, RecordMetadata]] = []
    failed = list(refused)
    for future in futures:
        error = future.exception()
        if error is None:
            sent.append((future.message, future.result()))
        else:
            failed.append((future.message, error))
    if failed:
        raise SendFailed(sent, failed) from failed[0][1]
    return [metadata for _, metadata in sent]


def failures_of(all_queued: Iterable[QueuedMessages], deadline: float) -> Failures:
    """Wait for every message, and return those that failed.

    Args:
        all_queued: the messages.
        deadline: `time.monotonic()` until which to wait.

    Raises:
        RequestTimedOut: an outcome is not known in time.
    """
    failed: Failures = []
    for queued in all_queued:
        # Usually waiting for the last message shows that all are stored.
        SendFuture(queued, len(queued.records) - 1).exception(_left(deadline))
        if queued.all_stored():
            continue
        for index in range(len(queued.records)):
            future = SendFuture(queued, index)
            error = future.exception(_left(deadline))
            if error is not None:
                failed.append((future.message, error))
    return failed


def shut_down(sender: Sender, cluster: Cluster | None, limit_s: float) -> Failures:
    """End a producer, and return the failures that its user has not seen.

    Args:
        sender: sends its messages, and ends.
        cluster: is closed; None where it is not the producer's own.
        limit_s: how long to wait; messages not delivered by then are cancelled.
    """
    deadline = time.monotonic() + limit_s
    cancel_s = min(_CANCEL_MOST_S, limit_s * _CANCEL_SHARE)
    sender.send_queue.refuse(ProducerClosed("the producer is closed: make a new one"))
    sender.begin_close()
    if not sender.finished.wait(max(0.0, limit_s - cancel_s)):
        sender.cancel(limit_s)
        if not sender.finished.wait(max(0.05, _left(deadline))):
            logger.error(
                "producer closed before it could cancel messages=%d whose outcome is unknown",
                sender.send_queue.open_messages,
            )
    failed: Failures = [
        (future.message, future.exception(0) or Cancelled("not delivered"))
        for future in list(sender.failed)
        if future.index not in future.queued.observed
    ]
    if cluster is not None:
        cluster.close(max(0.05, _left(deadline)))
    if not sender.join(max(0.05, _left(deadline))):
        logger.warning("producer closed while a task of it still waits for the network")
    return failed


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
