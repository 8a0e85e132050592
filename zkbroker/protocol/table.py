"""The protocol as a table for the documentation, from the metadata that the codec uses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zkbroker.protocol.api import BROKER_VERSIONS
from zkbroker.protocol.messages import MESSAGES
from zkbroker.protocol.schema import Kind, Wire, wire_fields


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field.

    Args:
        depth: 0 for a field of the message itself, 1 for a field of an array's item, and so on.
        name: as in the dataclass.
        wire_type: for instance `int32`, `string?` (may be null), `[int32]`, `[]` (items follow).
        versions: for instance `0+`, `3+`, `2-4`.
    """

    depth: int
    name: str
    wire_type: str
    versions: str


def protocol_markdown() -> str:
    """Return the protocol as Markdown: a table of the APIs, then one of each message's fields."""
    overview = ["| key | API | versions |", "| --- | --- | --- |"]
    messages = []
    for api_key, (low, high) in sorted(BROKER_VERSIONS.items()):
        title = MESSAGES[api_key][0].__name__.removesuffix("Request")
        overview.append(f"| {api_key:d} | {title} | {low}-{high} |")
        for side, message in zip(("request", "response"), MESSAGES[api_key], strict=True):
            messages += ["", f"### {title} {side}", ""]
            rows = [_markdown_row(field) for field in field_rows(message)]
            head = ["| field | type | versions |", "| --- | --- | --- |"]
            messages += head + rows if rows else ["No fields."]
    return "\n".join(overview + messages) + "\n"


def field_rows(message: type[Any], depth: int = 0) -> Iterator[FieldRow]:
    """Yield the fields of a message in wire order, each array before the fields of its items."""
    for field in wire_fields(message):
        wire = field.wire
        yield FieldRow(depth, field.name, _type_name(wire), _versions(wire))
        if wire.kind is Kind.ARRAY and isinstance(wire.item, type):
            yield from field_rows(wire.item, depth + 1)


def _type_name(wire: Wire) -> str:
    name = wire.kind.value
    if wire.kind is Kind.ARRAY:
        name = f"[{wire.item.value}]" if isinstance(wire.item, Kind) else "[]"
    if wire.nullable is None:
        return name
    return f"{name}?" if wire.nullable <= wire.since else f"{name}? (null from {wire.nullable})"


def _versions(wire: Wire) -> str:
    if wire.until is None:
        return f"{wire.since}+"
    return str(wire.since) if wire.until == wire.since else f"{wire.since}-{wire.until}"


def _markdown_row(field: FieldRow) -> str:
    name = "· " * field.depth + f"`{field.name}`"
    return f"| {name} | {field.wire_type} | {field.versions} |"
