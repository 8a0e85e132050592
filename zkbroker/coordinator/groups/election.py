"""Elects the protocol (assignment strategy) of a group among those of its members.

The candidates are the protocols that every member supports. Each member votes for the first
candidate in its own list; most votes win. A tie goes to the protocol that the earliest member
prefers, so that the outcome does not depend on hashing.
"""

from collections import Counter
from collections.abc import Iterable, Sequence


def candidates(preferences: Iterable[Sequence[str]]) -> set[str]:
    """The protocols that all members support."""
    sets = [set(names) for names in preferences]
    return set.intersection(*sets) if sets else set()


def elect(preferences: Sequence[Sequence[str]]) -> str:
    """Elect a protocol.

    Args:
        preferences: for each member, in order of joining, its protocols, the preferred one first.

    Raises:
        ValueError: there is no protocol that all members support.
    """
    common = candidates(preferences)
    votes = Counter(
        next(name for name in names if name in common) for names in preferences if common
    )
    if not votes:
        raise ValueError("the members have no protocol in common")
    most = max(votes.values())
    return next(name for names in preferences for name in names if votes[name] == most)
