"""Assignors by name: the built-in ones and the user's."""

from collections.abc import Callable, Mapping, Sequence

from zkbroker.consumer.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from zkbroker.consumer.sticky import StickyAssignor
from zkbroker.errors import ConfigError

BUILT_IN: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
}


def choose_assignors(names: Sequence[str], own: Sequence[Assignor]) -> list[Assignor]:
    """Return the assignors of a member in order of preference.

    Args:
        names: `partition.assignment.strategy`.
        own: the user's; one that is not named comes first.

    Raises:
        ConfigError: a name is not known.
    """
    given = {assignor.name: assignor for assignor in own}
    chosen = [assignor for assignor in own if assignor.name not in names]
    for name in names:
        if name in given:
            chosen.append(given[name])
        elif name in BUILT_IN:
            chosen.append(BUILT_IN[name]())
        else:
            raise ConfigError(
                f"partition.assignment.strategy={name} is not known: one of "
                f"{', '.join(BUILT_IN)}, or give the assignor to the constructor"
            )
    return chosen
