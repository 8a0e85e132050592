import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.coordinator.groups.election import candidates, elect


def test_strategy_with_most_votes_wins():
    members = [["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]]
    assert elect(members) == "roundrobin"


def test_only_common_strategies_are_elected():
    assert elect([["sticky", "range"], ["sticky", "range"], ["range"]]) == "range"


def test_member_votes_for_its_first_candidate():
    # "mine" is no candidate, so the first member's vote is for roundrobin
    assert elect(
        [["mine", "roundrobin", "range"], ["roundrobin", "range"], ["range", "roundrobin"]]
    ) == ("roundrobin")


def test_tie_goes_to_preference_of_earliest_member():
    assert elect([["b", "a"], ["a", "b"]]) == "b"
    assert elect([["a", "b"], ["b", "a"]]) == "a"


def test_election_without_common_strategy_raises():
    with pytest.raises(ValueError, match="no protocol in common"):
        elect([["range"], ["sticky"]])
    with pytest.raises(ValueError, match="no protocol in common"):
        elect([])


@given(st.lists(st.permutations(["a", "b", "c", "d"]).map(lambda p: p[:3]), min_size=1, max_size=6))
def test_winner_is_candidate_with_most_votes(preferences):
    common = candidates(preferences)
    if not common:
        with pytest.raises(ValueError):
            elect(preferences)
        return
    winner = elect(preferences)
    assert winner in common
    ballots = [next(name for name in names if name in common) for names in preferences]
    assert ballots.count(winner) == max(ballots.count(name) for name in common)
