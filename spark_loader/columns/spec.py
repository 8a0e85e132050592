"""The columns that values are turned into, as an option of a load; travels to the mappers.

Invariant: a `ValueColumns` is valid: patterns and schemas are parsed once, in the driver.
"""

from dataclasses import dataclass

import pyarrow as pa

from spark_loader.columns.converter import Converter, TypedRows
from spark_loader.columns.json_values import JsonValues
from spark_loader.columns.regex_values import (
    ACCESS_LOG_PATTERN,
    ACCESS_LOG_TYPES,
    RegexValues,
    groups_of,
)
from spark_loader.columns.types import Column, checked, parse_columns, type_name
from zkbroker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumns:
    """The columns of values.

    Attributes:
        source: `json`, `regex` or `avro`.
        columns: in order.
        pattern: of `regex`.
        schema: of `avro`, as JSON text.
        header: of `avro`: `none`, or `confluent` where the schema's id precedes the record.
        zone: IANA name, for times without a zone of their own.
    """

    source: str
    columns: tuple[Column, ...]
    pattern: str = ""
    schema: str = ""
    header: str = "none"
    zone: str = "UTC"

    @classmethod
    def json(cls, text: str, *, zone: str = "UTC") -> "ValueColumns":
        """Take fields of JSON objects.

        Args:
            text: `[NAME=]FIELD:TYPE,…`.
            zone: for times without one.

        Raises:
            ConfigError: it is not of this form.
        """
        columns = parse_columns(text, "--columns-json")
        JsonValues(columns, zone)
        return cls(source="json", columns=columns, zone=zone)

    @classmethod
    def regex(cls, pattern: str, types: str = "", *, zone: str = "UTC") -> "ValueColumns":
        """Take the named groups of a regex.

        Args:
            pattern: in RE2's syntax.
            types: `[NAME=]GROUP:TYPE,…`; groups that are not named are strings.
            zone: for times without one.

        Raises:
            ConfigError: one of them cannot be used.
        """
        groups = groups_of(pattern, "--columns-regex")
        typed = parse_columns(types, "--columns-types") if types else ()
        by_group = {each.path: each for each in typed}
        unknown = sorted(".".join(path) for path in by_group if path[-1] not in groups)
        if unknown or any(len(path) > 1 for path in by_group):
            raise ConfigError(
                f"--columns-types: the regex has no group {', '.join(unknown)}; it has "
                f"{', '.join(groups)}"
            )
        columns = [by_group.get((name,), Column(name, (name,), pa.string())) for name in groups]
        found = checked(columns, "--columns-regex")
        return cls(source="regex", columns=found, pattern=pattern, zone=zone)

    @classmethod
    def access_log(cls, *, zone: str = "UTC") -> "ValueColumns":
        """Take the parts of a line of an access log, of the common or the combined format."""
        return cls.regex(ACCESS_LOG_PATTERN, ACCESS_LOG_TYPES, zone=zone)

    @classmethod
    def avro(cls, schema: str, header: str = "none") -> "ValueColumns":
        """Take the fields of Avro records.

        Args:
            schema: JSON text of the schema of each value, a record.
            header: `none`, or `confluent` where the schema's id precedes the record.

        Raises:
            ConfigError: it is not the schema of a record, or fastavro is missing.
        """
        from spark_loader.columns.avro_values import HEADERS, avro_columns

        if header not in HEADERS:
            raise ConfigError(f"--avro-header {header!r}: give {' or '.join(HEADERS)}")
        columns = checked(avro_columns(schema), "--columns-avro")
        return cls(source="avro", columns=columns, schema=schema, header=header)

    @property
    def fields(self) -> list[pa.Field]:
        """Fields of the columns, in order."""
        return [pa.field(each.name, each.type) for each in self.columns]

    def rows(self) -> TypedRows:
        """Return the object that adds the columns to batches."""
        converter: Converter
        if self.source == "json":
            converter = JsonValues(self.columns, self.zone)
        elif self.source == "regex":
            converter = RegexValues(self.pattern, self.columns, self.zone)
        else:
            from spark_loader.columns.avro_values import AvroValues

            converter = AvroValues(self.schema, self.header)
        return TypedRows(converter, self.fields)


def require_same_types(known: pa.Schema, wanted: ValueColumns) -> None:
    """Check that columns have the types that they had in earlier loads; new ones may come.

    Args:
        known: schema of what was loaded.
        wanted: columns of this load.

    Raises:
        ConfigError: a column would change its type.
    """
    before = {field.name.lower(): field for field in known}
    for each in wanted.columns:
        field = before.get(each.name.lower())
        if field is not None and (field.name, field.type) != (each.name, each.type):
            raise ConfigError(
                f"column {each.name} would be {type_name(each.type)}; what was loaded before has "
                f"{field.name} as {type_name(field.type)}. Give it that type, or another name by "
                "NAME=FIELD:TYPE"
            )
