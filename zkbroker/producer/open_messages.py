"""All messages that were accepted and have no outcome yet, in every stage.

    send queue ─▶ router (topics that are looked up) ─▶ accumulator (waiting, in flight)

Invariant: only the sender's loop uses it; each message is failed once.
"""

from dataclasses import dataclass

from zkbroker.client import Cluster
from zkbroker.producer.accumulator import Accumulator
from zkbroker.producer.completion import Completion
from zkbroker.producer.outcomes import cancelled
from zkbroker.producer.queued_messages import QueuedMessages, whole
from zkbroker.producer.routing import Router
from zkbroker.producer.send_queue import SendQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMessages:
    """The messages of one producer that are not resolved."""

    cluster: Cluster
    send_queue: SendQueue
    router: Router
    accumulator: Accumulator
    completion: Completion

    def queued(self) -> list[QueuedMessages]:
        """Return the lists that hold these messages."""
        all_queued = dict.fromkeys(self.router.parked())
        for batch in self.accumulator.unresolved():
            if not batch.resolved:
                all_queued.update(dict.fromkeys(queued for queued, _ in batch.parts))
        all_queued.update(dict.fromkeys(self.send_queue.peek()))
        return list(all_queued)

    def fail(self, error: BaseException) -> None:
        """Fail all of them."""
        self._fail_unplaced(error)
        for batch in list(self.accumulator.unresolved()):
            if not batch.resolved:
                self.completion.give_up(batch, error)

    def fail_unsent(self, error: BaseException) -> None:
        """Fail the messages that were never sent."""
        self._fail_unplaced(error)
        self.fail_unnumbered(error)

    def fail_unnumbered(self, error: BaseException) -> None:
        """Fail the waiting batches without sequence numbers."""
        for batch in list(self.accumulator.waiting()):
            if not batch.numbered:
                self.completion.give_up(batch, error)

    def cancel(self, after_s: float) -> None:
        """Fail all of them, each with the reason why it was not delivered within `after_s`."""
        for batch in list(self.accumulator.unresolved()):
            if not batch.resolved:
                error = cancelled(batch.where, after_s, batch.last_error, batch.doubt)
                self.completion.give_up(batch, error)
        for topic, reason, parts in self.router.forget_all():
            known = self.cluster.known_partitions(topic)
            if reason is None and known:
                reason = self.cluster.no_leader(topic, known[0].partition)
            self.completion.fail(parts, cancelled(f"topic {topic}", after_s, reason, ""))
        self.fail(cancelled("the queue", after_s, None, ""))

    def _fail_unplaced(self, error: BaseException) -> None:
        self.completion.fail([whole(queued) for queued in self.send_queue.drain()], error)
        for _, _, parts in self.router.forget_all():
            self.completion.fail(parts, error)
