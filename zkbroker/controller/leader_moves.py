"""Leader changes on request: controlled shutdown, preferred replicas, automatic rebalance.

Invariant: the new leader comes from the ISR. A partition without another candidate keeps its
leader, and the answer says so.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from zkbroker.controller.context import ControllerContext
from zkbroker.controller.partitions import Partitions
from zkbroker.controller.requests import RequestBatch
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry.partition_states import Key

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LeaderMoves:
    """Moves the leaders of partitions within their ISRs."""

    context: ControllerContext
    partitions: Partitions
    batch: RequestBatch

    def controlled_shutdown(self, broker: int, epoch: int) -> list[Key]:
        """Move the leaders of a broker that is about to stop.

        Args:
            broker: its id.
            epoch: its broker epoch; -1 when unknown.

        Returns:
            the partitions with several replicas that it still leads: they have no other candidate.

        Raises:
            ProtocolError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
        """
        context = self.context
        live = context.brokers.get(broker)
        if live is None:
            raise ProtocolError(
                f"broker {broker} is not registered", code=ErrorCode.BROKER_NOT_AVAILABLE
            )
        if 0 <= epoch < live.epoch:
            raise ProtocolError(
                f"broker {broker} has registered again since", code=ErrorCode.STALE_BROKER_EPOCH
            )
        context.shutting_down.add(broker)
        several = [
            key
            for key in context.hosted_by(broker)
            if len(context.replicas(key)) > 1 and not context.ending(key)
        ]
        led = [key for key in several if context.leads(broker, key)]
        self.partitions.move_leaders(led)
        self.batch.flush()
        followed = [key for key in several if not context.leads(broker, key)]
        for key in followed:
            self.batch.stop(key, [broker], delete=False)
        self.partitions.remove_from_isr(followed, {broker})
        self.batch.flush()
        left = [key for key in several if context.leads(broker, key)]
        logger.info(
            "broker shuts down id=%d moved=%d left=%d", broker, len(led) - len(left), len(left)
        )
        return left

    def elect_preferred(self, wanted: Iterable[Key] | None) -> dict[Key, ErrorCode]:
        """Make first replicas leaders again; for all partitions when None."""
        context = self.context
        keys = list(context.served() if wanted is None else wanted)
        self.partitions.elect_preferred([key for key in keys if context.known(key)])
        self.batch.flush()
        answers: dict[Key, ErrorCode] = {}
        for key in keys:
            if not context.replicas(key) or key[0] in context.deleting:
                answers[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif context.led_by_first(key):
                answers[key] = ErrorCode.NONE
            else:
                answers[key] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        return answers

    def elect_requested(self, wanted: Iterable[Key]) -> None:
        """Make first replicas leaders again, as requested through the operator tools' node."""
        known = sorted(key for key in wanted if self.context.known(key))
        decided = self.partitions.elect_preferred(known)
        logger.info("preferred leaders asked=%d elected=%d", len(known), len(decided))
        self.batch.flush()

    def rebalance(self, above_percent: int) -> None:
        """Return partitions to preferred leaders that lead too few of them."""
        if self.context.reassigning:
            return
        owed = self.context.imbalanced(above_percent)
        if owed:
            decided = self.partitions.elect_preferred(owed)
            logger.info("preferred leaders owed=%d elected=%d", len(owed), len(decided))
            self.batch.flush()
