"""Look-ups that any broker can answer: one broker after the other is asked.

    broker 1 ──no answer within the patience──▶ broker 2 ──▶ … ──▶ all again, for twice as long

Invariants: a broker that hangs costs a look-up the patience, not all of its time, and is asked last
for the next `AVOID_S`. Look-ups have connections of their own (`LANE`), so that they wait for no
long poll and no slow append, and giving one up breaks nothing else.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from zkbroker.client.connections import Connections
from zkbroker.client.view import BrokerAddress, BrokerUnavailable, NoBrokersAvailable
from zkbroker.errors import AuthenticationFailed, NetworkError, RequestTimedOut
from zkbroker.network.client.connection import BrokerConnection

logger = logging.getLogger(__name__)

LANE = "metadata"
PATIENCE_S = 2.0
"""How long one broker may take to answer before the next one is asked."""
AVOID_S = 30.0
"""For how long a broker that gave no answer is asked last."""

T = TypeVar("T")
Question = Callable[[BrokerConnection, float], T]
"""Asks one broker over a connection, and waits so many seconds at most; may be called again."""


class AnyBroker:
    """Asks brokers in turn.

    Args:
        connections: of the cluster.
        timeout_s: how long a question takes at most.
        patience_s: how long one broker may take before another one is asked.
    """

    def __init__(
        self, connections: Connections, timeout_s: float, patience_s: float = PATIENCE_S
    ) -> None:
        self.connections = connections
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._turn = random.randrange(1 << 16)  # noqa: S311 - spreads clients over the brokers
        self._avoided: dict[tuple[str, int], float] = {}

    def ask(
        self,
        question: Question[T],
        *groups: Iterable[BrokerAddress],
        timeout_s: float | None = None,
    ) -> T:
        """Return the first answer.

        Args:
            question: asked of one broker at a time.
            groups: the brokers; those of the first group are asked before those of the next.
            timeout_s: how long all of it may take; the time-out of the cluster by default.

        Raises:
            NoBrokersAvailable: no broker can be reached.
            NetworkError, RequestTimedOut: no broker answered.
            ZkbrokerError: any other error of `question`.
        """
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        patience_s = self._patience_s
        brokers = self._in_turn(groups)
        while True:
            failures: list[NetworkError | RequestTimedOut | BrokerUnavailable] = []
            for broker in brokers:
                left_s = max(0.1, deadline - time.monotonic())
                wait_s = left_s if len(brokers) == 1 else min(patience_s, left_s)
                try:
                    return self._ask(question, broker, wait_s)
                except (BrokerUnavailable, NetworkError, RequestTimedOut) as error:
                    logger.debug("no answer broker=%d error=%s", broker.id, error)
                    self._avoided[broker.host, broker.port] = time.monotonic() + AVOID_S
                    failures.append(error)
                if time.monotonic() >= deadline:
                    break
            # Unreachable brokers fail at once; the others may still answer.
            unanswered = [each for each in failures if not _unreachable(each)]
            if not unanswered:
                raise NoBrokersAvailable(_reasons(failures))
            if time.monotonic() >= deadline or (
                patience_s > self._patience_s
                and not any(isinstance(_cause(each), RequestTimedOut) for each in unanswered)
            ):
                raise unanswered[-1]
            patience_s *= 2

    def _ask(self, question: Question[T], broker: BrokerAddress, wait_s: float) -> T:
        started = time.monotonic()
        connection = self.connections.get(broker, LANE, wait_s)
        answer = question(connection, max(0.1, wait_s - (time.monotonic() - started)))
        self._avoided.pop((broker.host, broker.port), None)
        return answer

    def _in_turn(self, groups: Sequence[Iterable[BrokerAddress]]) -> list[BrokerAddress]:
        self._turn += 1
        ordered: list[BrokerAddress] = []
        for group in groups:
            brokers = sorted(group)
            first = self._turn % len(brokers) if brokers else 0
            ordered += brokers[first:] + brokers[:first]
        now = time.monotonic()
        return sorted(
            ordered, key=lambda each: self._avoided.get((each.host, each.port), 0.0) > now
        )


def _cause(error: Exception) -> BaseException:
    return error.__cause__ or error if isinstance(error, BrokerUnavailable) else error


def _unreachable(error: Exception) -> bool:
    """Whether no connection was opened at all; after a time-out the broker may only hang."""
    return isinstance(error, BrokerUnavailable) and not isinstance(_cause(error), RequestTimedOut)


def _reasons(failures: Sequence[Exception]) -> str:
    reasons = "; ".join(map(str, failures)) or "none is registered"
    if any(isinstance(_cause(each), AuthenticationFailed) for each in failures):
        # The brokers run, and the reasons say what to change.
        return f"no broker lets this client in: {reasons}"
    return f"no broker can be reached: {reasons}: start one, or correct the addresses"
