"""ACLs as the genuine kafka-acls (2.3) prints them, for scripts that read its output.

    Current ACLs for resource `Topic:LITERAL:orders`:
            User:alice has Allow permission for operations: Read from hosts: *

Invariant: the genuine tool has one form of output for a broker and another for ZooKeeper; both are
    reproduced exactly, blanks included.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkbroker.security.acls import Acl, Binding, Pattern


def adding_lines(bindings: "Sequence[Binding]", *, through_broker: bool) -> list[str]:
    """Return the lines for ACLs that are about to be added."""
    return _lines("Adding ACLs", bindings, through_broker=through_broker, in_words=True)


def current_lines(bindings: "Sequence[Binding]", *, through_broker: bool) -> list[str]:
    """Return the lines for existing ACLs; empty for none."""
    return _lines(
        "Current ACLs", bindings, through_broker=through_broker, in_words=not through_broker
    )


def _lines(
    heading: str, bindings: "Sequence[Binding]", *, through_broker: bool, in_words: bool
) -> list[str]:
    by_pattern: dict[Pattern, list[Acl]] = {}
    for pattern, acl in bindings:
        by_pattern.setdefault(pattern, []).append(acl)
    found: list[str] = []
    for pattern, acls in by_pattern.items():
        lines = [f"\t{_in_words(acl) if in_words else _in_fields(acl)}" for acl in acls]
        # The genuine tool has a blank on both sides of a line end.
        lines[0] = f" {lines[0]}"
        lines[-1] += " "
        name = _pattern(pattern, through_broker=through_broker)
        found += [f"{heading} for resource `{name}`: ", *lines, ""]
    return found


def _pattern(pattern: "Pattern", *, through_broker: bool) -> str:
    if through_broker:
        return (
            f"ResourcePattern(resourceType={pattern.type.name}, name={pattern.name}, "
            f"patternType={pattern.pattern_type.name})"
        )
    return f"{pattern.type.label}:{pattern.pattern_type.name}:{pattern.name}"


def _in_words(acl: "Acl") -> str:
    return (
        f"{acl.principal} has {acl.permission.label} permission for operations: "
        f"{acl.operation.label} from hosts: {acl.host}"
    )


def _in_fields(acl: "Acl") -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
