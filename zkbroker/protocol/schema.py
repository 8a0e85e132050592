"""Messages as data: dataclasses whose fields name their wire types and versions.

Invariant: one dataclass per message covers all its versions. The order of the fields is the order
on the wire in every version. A field is present in the versions `since <= version <= until`; in
other versions it keeps its default when decoded and is left out when encoded.

    int8 int16 int32 int64   big-endian, signed         boolean   one byte, 0 or 1
    string                   int16 length, UTF-8        raw       int32 length, bytes
    records                  like raw, but never copied: a view of the frame when decoded; bytes,
                             views and file slices (or a list of them) when encoded
    array                    int32 count, items         null      length or count -1
"""

from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, TypeVar, dataclass_transform

from zkbroker.protocol.api import ApiKey

_WIRE = "wire"

M = TypeVar("M")


class Kind(Enum):
    """The wire types; the values are the names in the documentation."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOLEAN = "boolean"
    STRING = "string"
    RAW = "bytes"
    RECORDS = "records"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Wire:
    """The wire form of one field.

    Args:
        kind: its wire type.
        since: the first version with the field.
        until: the last version with the field; None for no end.
        nullable: the first version in which null is allowed; None if it never is.
        item: for an array, the kind or the dataclass of its items.
    """

    kind: Kind
    since: int = 0
    until: int | None = None
    nullable: int | None = None
    item: "Kind | type[Any] | None" = None

    def present(self, version: int) -> bool:
        """Whether a version of the message has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def allows_null(self, version: int) -> bool:
        """Whether the field may be null in a version."""
        return self.nullable is not None and version >= self.nullable


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a message: its name in the dataclass and its wire form."""

    name: str
    wire: Wire


@dataclass_transform(eq_default=True)
def wire_message(message: type[M]) -> type[M]:
    """Turn a class into a message or a part of one: a dataclass with slots.

    All messages share `__eq__` and `__repr__`: Python would compile both for each class, which
    takes a third of the import time of the messages.
    """
    message.__eq__ = _equal  # type: ignore[method-assign]
    message.__hash__ = None  # type: ignore[assignment]
    message.__repr__ = _shown  # type: ignore[method-assign]
    # Without a docstring dataclass would make one of the signature, which costs as much.
    message.__doc__ = message.__doc__ or ""
    return dataclass(slots=True, eq=False, repr=False)(message)


class Request:
    """The base of all requests; `messages` sets the number of its API in each."""

    __slots__ = ()

    api_key: ClassVar[ApiKey]


KEYWORD_MESSAGES: set[type[Any]] = set()


@dataclass_transform(eq_default=True, kw_only_default=True)
def keyword_message(message: type[M]) -> type[M]:
    """Turn a class into a message whose fields must be named, as the type checker enforces.

    This is for messages with several numbers in a row: a later version's field between them would
    shift the others, and no type would show it. Only the codec passes fields by position, which is
    quicker.
    """
    KEYWORD_MESSAGES.add(message := wire_message(message))
    return message


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)


def _shown(self: Any) -> str:
    values = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _field(wire: Wire, default: Any) -> Any:
    if default is list:
        return field(default_factory=list, metadata={_WIRE: wire})
    return field(default=default, metadata={_WIRE: wire})


def int8(*, since: int = 0, until: int | None = None, default: int = 0) -> Any:
    """A signed byte."""
    return _field(Wire(Kind.INT8, since, until), default)


def int16(*, since: int = 0, until: int | None = None, default: int = 0) -> Any:
    """A signed 16-bit integer."""
    return _field(Wire(Kind.INT16, since, until), default)


def int32(*, since: int = 0, until: int | None = None, default: int = 0) -> Any:
    """A signed 32-bit integer."""
    return _field(Wire(Kind.INT32, since, until), default)


def int64(*, since: int = 0, until: int | None = None, default: int = 0) -> Any:
    """A signed 64-bit integer."""
    return _field(Wire(Kind.INT64, since, until), default)


def boolean(*, since: int = 0, until: int | None = None, default: bool = False) -> Any:
    """A byte that is 0 or 1; any other value reads as true."""
    return _field(Wire(Kind.BOOLEAN, since, until), default)


def string(
    *,
    since: int = 0,
    until: int | None = None,
    nullable: int | None = None,
    default: str | None = "",
) -> Any:
    """A string of at most 32767 bytes; bytes that are not UTF-8 become U+FFFD, as in Java."""
    return _field(Wire(Kind.STRING, since, until, nullable), default)


def raw(*, nullable: int | None = None, default: bytes | None = b"") -> Any:
    """Bytes, copied out of the frame when decoded."""
    return _field(Wire(Kind.RAW, nullable=nullable), default)


def records() -> Any:
    """A record set, which may be null, passed through without a copy."""
    return _field(Wire(Kind.RECORDS, nullable=0), None)


def array(
    item: Kind | type[Any],
    *,
    since: int = 0,
    until: int | None = None,
    nullable: int | None = None,
    default: Any = list,
) -> Any:
    """A list of `item`: a kind, or a dataclass of such fields."""
    return _field(Wire(Kind.ARRAY, since, until, nullable, item), default)


def wire_fields(message: type[Any]) -> tuple[WireField, ...]:
    """Return the fields of a message in wire order, those of all versions.

    Raises:
        TypeError: the definition of the message is wrong: a field lacks wire metadata or a default.
    """
    found = []
    for item in fields(message):
        wire = item.metadata.get(_WIRE)
        if wire is None or (item.default is MISSING and item.default_factory is MISSING):
            msg = f"{message.__name__}.{item.name} has no wire type or no default"
            raise TypeError(msg)
        found.append(WireField(item.name, wire))
    return tuple(found)
