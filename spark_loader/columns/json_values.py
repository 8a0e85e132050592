"""JSON objects → typed columns, by Arrow's own reader.

Invariant: each value is exactly one object. Many values are read at once, one per line. Each begins
    with `{` and ends with `}`, and no JSON text holds a raw newline; so the number of rows shows
    whether an object spans two values or a value holds two objects.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from spark_loader.columns.converter import Converted, without
from spark_loader.columns.texts import from_numbers, from_texts
from spark_loader.columns.types import NUMBERED, TIMES, Column
from zkbroker.errors import ConfigError

_ROW = re.compile(r" in row \d+$")
_CHANGED = re.compile(r"Column\(/(.+)\) changed from (\w+) to (\w+)")


class JsonValues:
    """Converts JSON objects; see `Converter`.

    Args:
        columns: whose paths are fields.
        zone: for times without one.

    Raises:
        ConfigError: a field is both a value and an object.
    """

    # About as many values as fit into the processor's cache.
    piece_rows = 8192

    def __init__(self, columns: Sequence[Column], zone: str) -> None:
        self._columns = columns
        self._zone = zone
        self._schema = pa.schema(_tree(columns))

    def convert(self, values: pa.Array) -> Converted:
        bad = _no_objects(values)
        if not bad:
            return self._read(values), {}
        kept, places = without(values, list(bad))
        arrays = self._read(kept) if len(kept) else [each.type for each in self._columns]
        return [
            each.take(places) if isinstance(each, pa.Array) else pa.nulls(len(values), each)
            for each in arrays
        ], bad

    def _read(self, values: pa.Array) -> list[pa.Array]:
        whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        text = pc.binary_join(whole, b"\n")[0].as_buffer()
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                # The whole text is one block, so that no object is cut.
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(_reason(str(error))) from None
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("not one JSON object, but several")
        # The reader does not check that texts are UTF-8.
        table.validate(full=True)
        return [self._column(table, each) for each in self._columns]

    def _column(self, table: pa.Table, column: Column) -> pa.Array:
        found = table.column(column.path[0]).combine_chunks()
        if len(column.path) > 1:
            found = pc.struct_field(found, list(column.path[1:]))
        try:
            if column.type == TIMES and column.format in NUMBERED:
                return from_numbers(found, column)
            return from_texts(found, column, self._zone) if _as_text(column) else found
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"field {'.'.join(column.path)}: {error}") from None


def _no_objects(values: pa.Array) -> Mapping[int, str]:
    """Return the values whose first or last character shows that they are not an object."""
    whole = pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))
    if pc.all(whole).as_py():
        return {}
    bad = {}
    for index in pc.indices_nonzero(pc.invert(whole)).to_pylist():
        text = values[index].as_py().strip(b" \t\r\n")
        if not (text.startswith(b"{") and text.endswith(b"}")):
            bad[index] = "not a JSON object"
    return bad


def _reason(text: str) -> str:
    """Return Arrow's error about a text, with the names of the JSON fields."""
    text = _ROW.sub("", text.removeprefix("JSON parse error: "))
    changed = _CHANGED.fullmatch(text)
    if changed is None:
        return text
    path, wanted, found = changed.groups()
    return f"field {path.replace('/', '.')}: {found} where {wanted} is expected"


def _as_text(column: Column) -> bool:
    """Return whether a column is read as text first."""
    kind: Any = column.type
    return bool(kind == TIMES or pa.types.is_date(kind) or pa.types.is_binary(kind))


def _read_as(column: Column) -> pa.DataType:
    if column.type == TIMES and column.format in NUMBERED:
        return pa.float64()
    return pa.string() if _as_text(column) else column.type


def _tree(columns: Sequence[Column]) -> list[pa.Field]:
    """Return the schema of the objects that hold the columns."""
    tree: dict[str, Any] = {}
    for column in columns:
        *outer, name = column.path
        level = tree
        for each in outer:
            level = level.setdefault(each, {})
            if not isinstance(level, dict):
                raise _both(column)
        kind = _read_as(column)
        if isinstance(level.get(name), dict):
            raise _both(column)
        if level.setdefault(name, kind) != kind:
            raise ConfigError(
                f"field {'.'.join(column.path)} cannot be read as two types: give it one"
            )
    return _fields(tree)


def _both(column: Column) -> ConfigError:
    return ConfigError(
        f"field {'.'.join(column.path)} would be a value and an object with fields: name either "
        "the field or its fields"
    )


def _fields(tree: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_fields(each)) if isinstance(each, dict) else each)
        for name, each in tree.items()
    ]
