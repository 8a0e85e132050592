"""All messages that were accepted and have no outcome yet, in every stage.

    send queue ─▶ router (topics that are looked up) ─▶ accumulator (waiting, in flight)

Invariant: only the sender's loop uses it; each message is failed once.
"""

from zkbroker.client import Cluster
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.completion import Completion
from zkbroker.producer.outcomes import cancelled
from zkbroker.producer.queued_messages import QueuedMessages, whole
from zkbroker.producer.routing import Router
from zkbroker.producer.send_queue import SendQueue


class OpenMessages:
    """The messages of one producer that are not resolved.

    Args:
        cluster: says why a topic waits.
        send_queue: messages that the loop has not taken yet.
        router: messages that wait for their topic.
        accumulator: messages in batches.
        completion: resolves messages to errors.
    """

    def __init__(
        self,
        *,
        cluster: Cluster,
        send_queue: SendQueue,
        router: Router,
        accumulator: Accumulator,
        completion: Completion,
    ) -> None:
        self._cluster = cluster
        self._send_queue = send_queue
        self._router = router
        self._accumulator = accumulator
        self._completion = completion

    def queued(self) -> list[QueuedMessages]:
        """Return the lists that hold these messages."""
        all_queued = dict.fromkeys(self._router.parked())
        for batch in self._accumulator.unresolved():
            if not batch.resolved:
                all_queued.update(dict.fromkeys(queued for queued, _ in batch.parts))
        all_queued.update(dict.fromkeys(self._send_queue.peek()))
        return list(all_queued)

    def fail(self, error: BaseException) -> None:
        """Fail all of them."""
        self._fail_unplaced(error)
        for batch in list(self._accumulator.unresolved()):
            if not batch.resolved:
                self._completion.give_up(batch, error)

    def fail_unsent(self, error: BaseException) -> None:
        """Fail the messages that were never sent."""
        self._fail_unplaced(error)
        self.fail_unnumbered(error)

    def fail_unnumbered(self, error: BaseException) -> None:
        """Fail the waiting batches without sequence numbers."""
        for batch in list(self._accumulator.waiting()):
            if not batch.numbered:
                self._completion.give_up(batch, error)

    def cancel(self, after_s: float) -> None:
        """Fail all of them, each with the reason why it was not delivered within `after_s`."""
        for batch in list(self._accumulator.unresolved()):
            if not batch.resolved:
                error = cancelled(batch.where, after_s, batch.last_error, batch.doubt)
                self._completion.give_up(batch, error)
        for topic, reason, parts in self._router.forget_all():
            known = self._cluster.known_partitions(topic)
            if reason is None and known:
                reason = self._cluster.no_leader(topic, known[0].partition)
            self._completion.fail(parts, cancelled(f"topic {topic}", after_s, reason, ""))
        self.fail(cancelled("the queue", after_s, None, ""))

    def _fail_unplaced(self, error: BaseException) -> None:
        self._completion.fail([whole(queued) for queued in self._send_queue.drain()], error)
        for _, _, parts in self._router.forget_all():
            self._completion.fail(parts, error)
