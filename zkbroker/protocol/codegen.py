"""Writes the Python source of the codec's encoders and decoders from wire metadata.

Invariant: the source depends only on class metadata. A run of fixed-size fields is packed or
unpacked by one prebuilt `struct.Struct`, together with the length word of the field that ends it.

In the generated code `b` is the frame, `e` its end, `p` the position, and `w` appends a piece; `n`
is the number of array items that are still allowed, `paced` iterates over a long array and may let
other tasks run; `errors` collects every error code other than 0.
"""

import struct
from typing import Any

from zkbroker.protocol.schema import Kind, Wire, WireField, wire_fields

_FORMATS = {
    Kind.INT8: "b",
    Kind.INT16: "h",
    Kind.INT32: "i",
    Kind.INT64: "q",
    Kind.BOOLEAN: "?",
}
# An array with fewer items is so short that other tasks need no turn in between.
SHORT = 64
_ERROR_CODE = "error_code"
_LENGTH_FORMATS = {Kind.STRING: "h", Kind.RAW: "i", Kind.RECORDS: "i", Kind.ARRAY: "i"}

Source = tuple[str, dict[str, Any]]


def decoder_source(message: type[Any], version: int) -> Source:
    """Return the source of `decode(b, p, n, paced) -> (message, position)`, and its names."""
    writer = _Writer(message, version)
    writer.line("def decode(b, p, n, paced):")
    writer.depth += 1
    writer.line("e = len(b)")
    result = _decode_fields(writer, message)
    writer.line(f"return {result}, p")
    return writer.source()


def encoder_source(message: type[Any], version: int) -> Source:
    """Return the source of `encode(o, pieces, paced, errors)`, and its names."""
    writer = _Writer(message, version)
    writer.line("def encode(o, pieces, paced, errors):")
    writer.depth += 1
    writer.line("w = pieces.append  # the only line for a message without fields")
    _encode_fields(writer, message, "o")
    return writer.source()


def minimum_size(item: "Kind | type[Any]", version: int) -> int:
    """Return the fewest bytes that an item can take, which bounds the count of an array."""
    if isinstance(item, Kind):
        return struct.calcsize(">" + (_FORMATS.get(item) or _LENGTH_FORMATS[item]))
    present = (field.wire for field in wire_fields(item) if field.wire.present(version))
    return sum(minimum_size(wire.kind, version) for wire in present)


class _Writer:
    """Lines of source, numbered variables and the constants the source refers to."""

    def __init__(self, message: type[Any], version: int) -> None:
        self.title = f"{message.__name__} v{version}"
        self.version = version
        self.depth = 0
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self.depth + text)

    def variable(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def constant(self, prefix: str, value: Any) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def source(self) -> Source:
        return "\n".join([*self._lines, ""]), self.names


class _Run:
    """Neighbouring fixed-size values, gathered until one struct call handles them all."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._format = ""
        self._values: list[str] = []

    def add(self, format_code: str, value: str) -> None:
        self._format += format_code
        self._values.append(value)

    def flush_decode(self) -> None:
        if self._values:
            layout = struct.Struct(">" + self._format)
            unpack = self._writer.constant("unpack", layout.unpack_from)
            self._writer.line(f"{', '.join(self._values)}, = {unpack}(b, p)")
            self._writer.line(f"p += {layout.size}")
            self._format, self._values = "", []

    def flush_encode(self) -> None:
        if self._values:
            pack = self._writer.constant("pack", struct.Struct(">" + self._format).pack)
            self._writer.line(f"w({pack}({', '.join(self._values)}))")
            self._format, self._values = "", []


def _label(writer: _Writer, field: WireField) -> str:
    return repr(f"{writer.title} {field.name}")


def _decode_fields(writer: _Writer, message: type[Any]) -> str:
    run = _Run(writer)
    values = []
    skipped = False
    for field in wire_fields(message):
        if not field.wire.present(writer.version):
            skipped = True
            continue
        variable = writer.variable()
        # By position if no field before it was skipped: that is quicker.
        values.append(f"{field.name}={variable}" if skipped else variable)
        if field.wire.kind in _FORMATS:
            run.add(_FORMATS[field.wire.kind], variable)
            continue
        length = writer.variable()
        run.add(_LENGTH_FORMATS[field.wire.kind], length)
        run.flush_decode()
        _decode_sized(writer, field, variable, length)
    run.flush_decode()
    return f"{writer.constant('Class', message)}({', '.join(values)})"


def _decode_sized(writer: _Writer, field: WireField, variable: str, length: str) -> None:
    wire, label = field.wire, _label(writer, field)
    writer.line(f"if {length} < 0:")
    nullable = wire.allows_null(writer.version)
    writer.line(f"    if {length} != -1: refuse({label})" if nullable else f"    refuse({label})")
    if nullable:
        writer.line(f"    {variable} = None")
    writer.line("else:")
    writer.depth += 1
    if wire.kind is Kind.ARRAY:
        _decode_items(writer, wire, variable, length, label)
    else:
        _decode_span(writer, wire.kind, variable, length, label)
    writer.depth -= 1


def _decode_span(writer: _Writer, kind: Kind, variable: str, length: str, label: str) -> None:
    end = writer.variable()
    writer.line(f"{end} = p + {length}")
    writer.line(f"if {end} > e: refuse({label})")
    form = {
        Kind.STRING: "text(b[p:{end}])",
        Kind.RAW: "bytes(b[p:{end}])",
        Kind.RECORDS: "b[p:{end}]",
    }[kind]
    writer.line(f"{variable} = {form.format(end=end)}")
    writer.line(f"p = {end}")


def _decode_items(writer: _Writer, wire: Wire, variable: str, count: str, label: str) -> None:
    item = wire.item
    assert item is not None
    size = minimum_size(item, writer.version)
    writer.line(f"if {count} * {size} > e - p: refuse({label})")
    writer.line(f"n -= {count}")
    writer.line(f"if n < 0: too_many({label})")
    if isinstance(item, Kind) and item in _FORMATS:
        unpack = writer.constant("unpack", struct.unpack_from)
        writer.line(f"{variable} = list({unpack}(f'>{{{count}}}{_FORMATS[item]}', b, p))")
        writer.line(f"p += {count} * {size}")
        return
    writer.line(f"{variable} = []")
    writer.line(f"for _ in range({count}) if {count} < {SHORT} else paced(range({count})):")
    writer.depth += 1
    if isinstance(item, Kind):
        value, length = writer.variable(), writer.variable()
        run = _Run(writer)
        run.add(_LENGTH_FORMATS[item], length)
        run.flush_decode()
        writer.line(f"if {length} < 0: refuse({label})")
        _decode_span(writer, item, value, length, label)
    else:
        value = _decode_fields(writer, item)
    writer.line(f"{variable}.append({value})")
    writer.depth -= 1


def _encode_fields(writer: _Writer, message: type[Any], source: str) -> None:
    run = _Run(writer)
    for field in wire_fields(message):
        if not field.wire.present(writer.version):
            continue
        value = f"{source}.{field.name}"
        if field.wire.kind in _FORMATS:
            run.add(_FORMATS[field.wire.kind], value)
            if field.name == _ERROR_CODE:
                writer.line(f"if {value}: errors.append({value})")
            continue
        _encode_sized(writer, run, field, value)
    run.flush_encode()


def _encode_sized(writer: _Writer, run: _Run, field: WireField, value: str) -> None:
    wire = field.wire
    variable, length = writer.variable(), writer.variable()
    writer.line(f"{variable} = {value}")
    writer.line(f"if {variable} is None:")
    if wire.allows_null(writer.version):
        writer.line(f"    {length} = -1")
    else:
        writer.line(f"    refuse_null({_label(writer, field)})")
    writer.line("else:")
    if wire.kind is Kind.STRING:
        writer.line(f"    {variable} = {variable}.encode()")
    size = "record_size" if wire.kind is Kind.RECORDS else "len"
    writer.line(f"    {length} = {size}({variable})")
    run.add(_LENGTH_FORMATS[wire.kind], length)
    run.flush_encode()
    # an empty record set is passed on too: the sender closes its file slice
    writer.line(f"if {length} {'>=' if wire.kind is Kind.RECORDS else '>'} 0:")
    writer.depth += 1
    if wire.kind is Kind.ARRAY:
        _encode_items(writer, wire, variable, length)
    elif wire.kind is Kind.RECORDS:
        writer.line(f"if type({variable}) is list: pieces.extend({variable})")
        writer.line(f"else: w({variable})")
    else:
        writer.line(f"w({variable})")
    writer.depth -= 1


def _encode_items(writer: _Writer, wire: Wire, variable: str, count: str) -> None:
    item = wire.item
    assert item is not None
    if isinstance(item, Kind) and item in _FORMATS:
        pack = writer.constant("pack", struct.pack)
        writer.line(f"w({pack}(f'>{{{count}}}{_FORMATS[item]}', *{variable}))")
        return
    each = writer.variable()
    writer.line(f"for {each} in {variable} if {count} < {SHORT} else paced({variable}):")
    writer.depth += 1
    if isinstance(item, Kind):
        coded = writer.variable()
        pack = writer.constant("pack", struct.Struct(">" + _LENGTH_FORMATS[item]).pack)
        writer.line(f"{coded} = {each}.encode()" if item is Kind.STRING else f"{coded} = {each}")
        writer.line(f"w({pack}(len({coded})))")
        writer.line(f"w({coded})")
    else:
        _encode_fields(writer, item, each)
    writer.depth -= 1
