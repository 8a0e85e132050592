import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.coordinator.groups.election import candidates, elect


def test_the_strategy_that_most_members_prefer_wins():
    members = [["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]]
    assert elect(members) == "roundrobin"


def test_only_what_every_member_supports_can_be_elected():
    assert elect([["sticky", "range"], ["sticky", "range"], ["range"]]) == "range"


def test_a_member_votes_for_the_first_candidate_in_its_own_list():
    # "mine" is no candidate, so the first member's vote is for roundrobin
    assert elect(
        [["mine", "roundrobin", "range"], ["roundrobin", "range"], ["range", "roundrobin"]]
    ) == ("roundrobin")


def test_of_equals_the_earliest_members_preference_wins():
    assert elect([["b", "a"], ["a", "b"]]) == "b"
    assert elect([["a", "b"], ["b", "a"]]) == "a"


def test_no_common_strategy_is_an_error():
    with pytest.raises(ValueError, match="no protocol in common"):
        elect([["range"], ["sticky"]])
    with pytest.raises(ValueError, match="no protocol in common"):
        elect([])


@given(st.lists(st.permutations(["a", "b", "c", "d"]).map(lambda p: p[:3]), min_size=1, max_size=6))
def test_the_winner_is_a_candidate_with_no_fewer_votes_than_any_other(preferences):
    common = candidates(preferences)
    if not common:
        with pytest.raises(ValueError):
            elect(preferences)
        return
    winner = elect(preferences)
    assert winner in common
    ballots = [next(name for name in names if name in common) for names in preferences]
    assert ballots.count(winner) == max(ballots.count(name) for name in common)
