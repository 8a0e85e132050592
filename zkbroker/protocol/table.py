"""The protocol as a table for readers, made of the same metadata as the codec."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from zkbroker.protocol.api import BROKER_VERSIONS, ApiKey
from zkbroker.protocol.messages import MESSAGES
from zkbroker.protocol.schema import Kind, Wire, wire_fields


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field.

    Args:
        depth: 0 for a field of the message itself, 1 for one of an item of its array, and so on.
        name: as in the dataclass.
        wire_type: for instance `int32`, `string?` (may be null), `[int32]`, `[]` (items follow).
        versions: for instance `0+`, `3+`, `2-4`.
    """

    depth: int
    name: str
    wire_type: str
    versions: str


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API: its key, the versions served, the fields of its two messages."""

    api_key: ApiKey
    min_version: int
    max_version: int
    request: tuple[FieldRow, ...]
    response: tuple[FieldRow, ...]


def protocol_table() -> list[ApiRow]:
    """Every API that is served, by key."""
    return [
        ApiRow(api_key, low, high, *(tuple(_rows(side, 0)) for side in MESSAGES[api_key]))
        for api_key, (low, high) in sorted(BROKER_VERSIONS.items())
    ]


def protocol_markdown() -> str:
    """The table as Markdown: an overview, then each message with its fields."""
    lines = ["| key | API | versions |", "| --- | --- | --- |"]
    table = protocol_table()
    lines += [f"| {row.api_key:d} | {_title(row)} | {_span(row)} |" for row in table]
    for row in table:
        for side, rows in (("request", row.request), ("response", row.response)):
            lines += ["", f"### {_title(row)} {side}", ""]
            if not rows:
                lines.append("No fields.")
                continue
            lines += ["| field | type | versions |", "| --- | --- | --- |"]
            lines += [_markdown_row(field) for field in rows]
    return "\n".join(lines) + "\n"


def _rows(message: type[Any], depth: int) -> Iterator[FieldRow]:
    for field in wire_fields(message):
        wire = field.wire
        yield FieldRow(depth, field.name, _type_name(wire), _versions(wire))
        if wire.kind is Kind.ARRAY and isinstance(wire.item, type):
            yield from _rows(wire.item, depth + 1)


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


def _title(row: ApiRow) -> str:
    return MESSAGES[row.api_key][0].__name__.removesuffix("Request")


def _span(row: ApiRow) -> str:
    return f"{row.min_version}-{row.max_version}"


def _markdown_row(field: FieldRow) -> str:
    name = "· " * field.depth + f"`{field.name}`"
    return f"| {name} | {field.wire_type} | {field.versions} |"
