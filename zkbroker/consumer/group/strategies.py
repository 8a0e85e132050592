"""Assignors by name: the built-in ones, and the user's by import path or as objects.

Invariant: no two assignors of a member share a name, since members agree on one by its name.
"""

from collections.abc import Callable, Mapping, Sequence

from zkbroker.config.import_path import import_instance, is_import_path
from zkbroker.consumer.group.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from zkbroker.consumer.group.sticky import StickyAssignor
from zkbroker.errors import ConfigError

_KEY = "partition.assignment.strategy"
_METHODS = ("user_data", "assign", "on_assignment")

BUILT_IN: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
}


def choose_assignors(names: Sequence[str], own: Sequence[Assignor]) -> list[Assignor]:
    """Return the assignors of a member in order of preference.

    Args:
        names: `partition.assignment.strategy`: names, or import paths of classes or objects.
        own: the user's; those that are not named come first.

    Raises:
        ConfigError: a name is not known; a path leads to no assignor, or to a built-in's name.
    """
    given = {assignor.name: assignor for assignor in own}
    chosen = [assignor for assignor in own if assignor.name not in names]
    for name in names:
        if name in given:
            chosen.append(given[name])
        elif name in BUILT_IN:
            chosen.append(BUILT_IN[name]())
        elif is_import_path(name):
            chosen.append(_imported(name))
        else:
            raise ConfigError(
                f"{_KEY}={name} is not known: give one of {', '.join(BUILT_IN)}, the import path "
                "of an assignor (package.module:Name), or the assignor to the constructor"
            )
    return chosen


def _imported(path: str) -> Assignor:
    found: Assignor = import_instance(_KEY, path)
    name = getattr(found, "name", None)
    missing = [each for each in _METHODS if not callable(getattr(found, each, None))]
    if not isinstance(name, str) or not name:
        missing.insert(0, "name")
    if missing:
        raise ConfigError(
            f"{_KEY}={path} is not an assignor: it has no {', '.join(missing)}; derive it from "
            "zkbroker.consumer.SimpleAssignor"
        )
    if name in BUILT_IN:
        raise ConfigError(
            f"{_KEY}={path} calls itself {name!r}, as a built-in assignor does: give it a name of "
            "its own, by which the members of the group find each other"
        )
    return found
