"""The counts of a transaction coordinator, under the names of Kafka's JMX beans where they exist.

Invariant: a transaction is counted as committed or aborted once, when every partition has its
marker and the completion is written. The coordinator that completes a transaction counts it, even
if a predecessor decided it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from zkbroker.coordinator.transactions.transaction import Transaction
from zkbroker.protocol.transaction_topic import TransactionState

_OPEN = frozenset(
    {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
)


@dataclass(slots=True)
class TransactionCounts:
    """Counts that only grow; `NAMES` says what each counts.

    A failed write may have been written all the same.
    """

    begun: int = 0
    commits: int = 0
    aborts: int = 0
    timeouts: int = 0
    fenced: int = 0
    expired: int = 0
    failed_writes: int = 0

    NAMES: ClassVar = (
        ("begun", "Transactions that began"),
        ("commits", "Transactions that were committed in every partition"),
        ("aborts", "Transactions that were aborted in every partition"),
        ("timeouts", "Transactions that took longer than their producer asked for"),
        ("fenced", "Transactions aborted because a new instance of their producer began"),
        ("expired", "Transactional ids that were forgotten"),
        ("failed_writes", "Transitions that could not be written to __transaction_state"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFigures:
    """A coordinator at one moment.

    Args:
        states: how many ids are in each state.
        oldest_open_ms: age of the oldest open transaction; 0 for none.
        counts: those that only grow.
        markers_queued: markers that wait to be sent to a broker, or for its answer.
        markers_unknown_destination: markers for partitions without a leader.
        marker_retries: markers that were sent again.
        appends_retried: transactions whose completion is being written again.
    """

    states: Mapping[TransactionState, int] = field(default_factory=dict)
    oldest_open_ms: int = 0
    counts: TransactionCounts = field(default_factory=TransactionCounts)
    markers_queued: int = 0
    markers_unknown_destination: int = 0
    marker_retries: int = 0
    appends_retried: int = 0

    GAUGES: ClassVar = (
        ("markers_queued", "transaction_marker_queue_size", "Markers without an answer"),
        (
            "markers_unknown_destination",
            "transaction_marker_unknown_destination_queue_size",
            "UnknownDestinationQueueSize",
        ),
        ("appends_retried", "transaction_log_append_retry_queue_size", "LogAppendRetryQueueSize"),
    )


def by_state(
    transactions: Iterable[Transaction], now_ms: int
) -> tuple[dict[TransactionState, int], int]:
    """Return how many ids are in each state, and the age of the oldest open transaction in ms."""
    states = dict.fromkeys(TransactionState, 0)
    oldest_ms = 0
    for each in transactions:
        current = each.current
        if current is None:
            continue
        states[current.state] += 1
        if current.state in _OPEN:
            oldest_ms = max(oldest_ms, now_ms - current.start_ms)
    return states, oldest_ms
