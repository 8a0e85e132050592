"""Dataclasses as JSON: plans, offsets of mappers, manifests, notes of micro-batches.

    start ─ "from"    size_bytes ─ "bytes"    {TopicPartition("t", 0): 23} ─ {"t": {"0": 23}}
    Partition07 ─ "broker-number"             a field with metadata from `written`: as that says

Invariant: `from_json(type(value), to_json(value)) == value`. A field that a document lacks has its
default, because older releases did not write it; fields beyond those of the class are ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from spark_loader.reading.positions import (
    TopicPartition,
    flat_numbers,
    partition_from_json,
    partition_numbers,
)
from zkbroker.types import Partition07

T = TypeVar("T")
Conversion = Callable[[Any], Any]

_NAMES = {"start": "from", "size_bytes": "bytes"}


def written(encode: Conversion, decode: Conversion) -> dict[str, Conversion]:
    """Return the metadata of a field that is not written as its type says.

    Args:
        encode: to JSON; a field encoded as None is left out of the document.
        decode: from JSON; raises ValueError.
    """
    return {"encode": encode, "decode": decode}


def to_json(value: Any) -> Any:
    """Return a dataclass, or a value of one, in the form that `json.dumps` takes."""
    if is_dataclass(value):
        content = {
            _NAMES.get(each.name, each.name): (each.metadata.get("encode", to_json))(
                getattr(value, each.name)
            )
            for each in fields(value)
        }
        return {name: found for name, found in content.items() if found is not None}
    if isinstance(value, Partition07):
        return str(value)
    if isinstance(value, Mapping):
        by_partition = any(isinstance(key, TopicPartition) for key in value)
        return partition_numbers(value) if by_partition else dict(value)
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    return value


def from_json(kind: type[T], found: Any) -> T:
    """Return the dataclass of a type that a document holds.

    Raises:
        ValueError: a field is missing or of another kind; the message names it.
    """
    if not isinstance(found, dict):
        raise ValueError(f"{found!r} is not an object")
    values = {}
    described: Any = kind
    for name, key, decode, required in _fields(described):
        if key in found:
            try:
                values[name] = decode(found[key])
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise ValueError(f"{key}: {error}") from None
        elif required:
            raise ValueError(f"{key} is missing")
    return kind(**values)


@cache
def _fields(kind: type) -> list[tuple[str, str, Conversion, bool]]:
    hints = get_type_hints(kind)
    return [
        (
            each.name,
            _NAMES.get(each.name, each.name),
            each.metadata.get("decode") or _decoder(hints[each.name], each.name),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
    ]


def _decoder(hint: Any, name: str = "") -> Conversion:
    arguments = get_args(hint)
    if name == "partition":
        return partition_from_json
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(from_json, hint)
    if get_origin(hint) is UnionType:
        some = _decoder(arguments[0])
        return lambda found: None if found is None else some(found)
    if get_origin(hint) is tuple:
        each = _decoder(arguments[0])
        return lambda found: tuple(each(item) for item in _of(list, found))
    if get_origin(hint) is dict:
        flat = flat_numbers if arguments[0] is TopicPartition else dict
        return lambda found: {key: _of(int, number) for key, number in flat(found).items()}
    return partial(_of, hint)


def _of(kind: type[T], found: Any) -> T:
    if type(found) is not kind:
        raise ValueError(f"{found!r} is not of type {kind.__name__}")
    return found
