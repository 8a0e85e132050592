"""How transactional ids are counted by their states."""

from zkbroker.coordinator.transactions.counts import TransactionCounts, TransactionFigures, by_state
from zkbroker.coordinator.transactions.transaction import Transaction, TransactionMetadata
from zkbroker.protocol.transaction_topic import TransactionState as S


def transaction(state, start_ms):
    return Transaction(
        TransactionMetadata(
            producer_id=1,
            producer_epoch=0,
            timeout_ms=1,
            state=state,
            last_update_ms=start_ms,
            start_ms=start_ms,
        )
    )


def test_states_are_counted_with_age_of_oldest_open_transaction():
    known = [
        transaction(S.ONGOING, 800),
        transaction(S.PREPARE_COMMIT, 500),
        transaction(S.PREPARE_ABORT, 600),
        transaction(S.COMPLETE_COMMIT, 100),
        transaction(S.EMPTY, -1),
        transaction(S.EMPTY, -1),
        Transaction(),  # its first record is being written
    ]
    states, oldest_ms = by_state(known, 1000)
    assert set(states) == set(S)
    assert {state: count for state, count in states.items() if count} == {
        S.ONGOING: 1,
        S.PREPARE_COMMIT: 1,
        S.PREPARE_ABORT: 1,
        S.COMPLETE_COMMIT: 1,
        S.EMPTY: 2,
    }
    assert oldest_ms == 500


def test_age_is_zero_without_open_transaction():
    assert by_state([transaction(S.COMPLETE_ABORT, 1)], 1000)[1] == 0
    assert by_state([], 1000)[1] == 0


def test_every_count_and_gauge_has_name():
    counts = TransactionCounts()
    assert {name for name, _ in TransactionCounts.NAMES} == set(TransactionCounts.__slots__)
    figures = TransactionFigures(counts=counts)
    for attribute, _, _ in TransactionFigures.GAUGES:
        assert getattr(figures, attribute) == 0
