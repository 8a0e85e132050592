"""Avro records → typed columns, by fastavro.

    value = record                                    header `none`
    value = 0:int8 · schema id:int32 · record         header `confluent`

Invariant: a field's type depends on the schema alone, never on what a record holds. A value is a
record to its last byte, or bad.
"""

import io
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa

from spark_loader.columns.converter import Converted
from spark_loader.columns.types import TIMES, Column
from zkbroker.errors import ConfigError

_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": TIMES,
    "timestamp-micros": TIMES,
    "uuid": pa.string(),
}
_MOST_DIGITS = 38
HEADERS = ("none", "confluent")
"""Prefix of a record: nothing, or its schema's id as Confluent's serializers write it."""
_HEADER_BYTES = 5
# Spark and Delta have no type for them.
_NOT_STORED = ("time-millis", "time-micros", "local-timestamp-millis", "local-timestamp-micros")


class AvroValues:
    """Converts Avro records; see `Converter`.

    Args:
        schema: JSON text of it.
        header: of each value; one of `HEADERS`.
    """

    piece_rows = 8192

    def __init__(self, schema: str, header: str = "none") -> None:
        fastavro = _fastavro()
        self._schema = fastavro.parse_schema(json.loads(schema))
        self._read = fastavro.schemaless_reader
        self._columns = avro_columns(schema)
        self._header = header

    def convert(self, values: pa.Array) -> Converted:
        bad: dict[int, str] = {}
        records: list[Mapping[str, Any]] = []
        for index, value in enumerate(values.to_pylist()):
            try:
                records.append(self._record(value))
            # Damaged bytes can raise any exception in the decoder.
            except Exception as error:  # noqa: BLE001
                records.append({})
                bad[index] = f"not a record of the schema: {error or type(error).__name__}"
        arrays = [
            pa.array(
                [_stored(record.get(each.path[0]), each.type) for record in records], each.type
            )
            for each in self._columns
        ]
        return arrays, bad

    def _record(self, value: bytes) -> Mapping[str, Any]:
        stream = io.BytesIO(value)
        if self._header == "confluent" and stream.read(_HEADER_BYTES)[:1] != b"\0":
            raise ValueError("it does not begin with the id of a schema")
        found: Mapping[str, Any] = self._read(stream, self._schema, None)
        left = len(value) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes are left over")
        return found


def avro_columns(schema: str) -> list[Column]:
    """Return the columns of a schema's record.

    Raises:
        ConfigError: it is not one, or has a type that no column can hold.
    """
    fastavro = _fastavro()
    try:
        text = json.loads(schema)
        fastavro.parse_schema(text)
    except (ValueError, fastavro.schema.SchemaParseException) as error:
        raise ConfigError(f"--columns-avro: not an Avro schema: {error}") from None
    # fastavro's own check lets some invalid schemas through.
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"--columns-avro: not an Avro schema: {error!r}") from None
    if not isinstance(text, dict) or text.get("type") not in ("record", "error"):
        raise ConfigError("--columns-avro: the schema has to be that of a record")
    types = _Types()
    return [
        Column(each["name"], (each["name"],), kind)
        for each, kind in types.fields(text, text.get("namespace", ""))
    ]


class _Types:
    """Arrow's types of Avro's, with the named ones seen so far."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType | None] = {}

    def fields(self, record: Mapping[str, Any], space: str) -> list[tuple[Any, pa.DataType]]:
        name = self._begin(record, space)
        space = name.rpartition(".")[0]
        found = [(each, self._type(each["type"], space)) for each in record["fields"]]
        self._named[name] = pa.struct([pa.field(each["name"], kind) for each, kind in found])
        return found

    def _begin(self, given: Mapping[str, Any], space: str) -> str:
        name = self._full(str(given["name"]), str(given.get("namespace", space)))
        self._named[name] = None
        return name

    def _full(self, name: str, space: str) -> str:
        return name if "." in name or not space else f"{space}.{name}"

    def _type(self, given: Any, space: str) -> pa.DataType:
        if isinstance(given, list):
            some = [each for each in given if each != "null"]
            if len(some) != 1:
                raise ConfigError(
                    f"--columns-avro: a column cannot be of several types: {json.dumps(given)}"
                )
            return self._type(some[0], space)
        if isinstance(given, str):
            if given in _PLAIN:
                return _PLAIN[given]
            known = self._named.get(self._full(given, space))
            if known is None:
                raise ConfigError(f"--columns-avro: {given} holds itself: no column can")
            return known
        return self._complex(given, space)

    def _complex(self, given: Mapping[str, Any], space: str) -> pa.DataType:
        logical = given.get("logicalType")
        kind = given["type"]
        if logical in _NOT_STORED:
            raise ConfigError(f"--columns-avro: there is no column type for {logical}")
        if logical == "decimal" and 0 < given.get("precision", 0) <= _MOST_DIGITS:
            decimal = pa.decimal128(given["precision"], given.get("scale", 0))
            if kind == "fixed":
                self._named[self._begin(given, space)] = decimal
            return decimal
        if logical in _LOGICAL:
            return _LOGICAL[logical]
        if kind in ("record", "error"):
            return pa.struct(
                [pa.field(each["name"], inner) for each, inner in self.fields(given, space)]
            )
        if kind in ("enum", "fixed"):
            found = pa.string() if kind == "enum" else pa.binary()
            self._named[self._begin(given, space)] = found
            return found
        if kind == "array":
            return pa.list_(self._type(given["items"], space))
        if kind == "map":
            return pa.map_(pa.string(), self._type(given["values"], space))
        return self._type(kind, space)


def _stored(value: Any, kind: pa.DataType) -> Any:
    """Return a value that fastavro read in the form that Arrow takes."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return str(value) if isinstance(value, UUID) else value
    if pa.types.is_struct(kind):
        return {field.name: _stored(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(key, _stored(each, kind.item_type)) for key, each in value.items()]
    if pa.types.is_list(kind):
        return [_stored(each, kind.value_type) for each in value]
    return value


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ModuleNotFoundError:
        raise ConfigError("Avro values need fastavro: pip install 'zkbroker[avro]'") from None
    return fastavro
