"""How a configuration dataclass is declared and built from properties.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class BrokerConfig:
        IGNORED: ClassVar[Mapping[str, str]] = {"num.io.threads": "greenlets need no count"}
        group: str = required("group.id groupid", Str(empty=False), "Name of the group.")
        port: int = option("port", Int(0, 65535), 9092, "Port to listen on.")
        roll_ms: int = option("log.roll.ms log.roll.hours", Ms(1), 604_800_000,
            "Age in ms at which a segment is rolled.")

A setting is one line: its names, the preferred one first, its kind, the default, the description; a
description that does not fit stands below. Tables of settings are laid out by hand, between
`fmt: off` and `fmt: on`.

Invariant: a built configuration is complete and valid; no reader checks it again. Of several
spellings of one option the first in declaration order that is present wins (as `log.dirs` over
`log.dir`).
"""

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Protocol, TypeVar

from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

_METADATA = "zkbroker.option"


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")

_UNITS_MS: Mapping[str, int] = {"hours": 3_600_000, "minutes": 60_000, "mins": 60_000}


class OptionKind(Protocol[T_co]):
    """The kind of an option's values."""

    def parse(self, text: str) -> T_co:
        """Turn the text of a properties file into a value; raise ValueError when it is not one."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is allowed."""

    @property
    def allowed(self) -> str:
        """The allowed values, for messages and the reference manual."""


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number within `[minimum, maximum]`."""

    minimum: int = -(2**63)
    maximum: int = 2**63 - 1

    def parse(self, text: str) -> int:
        return int(text.strip())

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) and self.minimum <= value <= self.maximum

    @property
    def allowed(self) -> str:
        low = "" if self.minimum == -(2**63) else f" from {self.minimum}"
        high = "" if self.maximum == 2**63 - 1 else f" up to {self.maximum}"
        return f"a whole number{low}{high}"


@dataclass(frozen=True, slots=True)
class Int32(Int):
    """A whole number that fits into 32 bits."""

    maximum: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Ms(Int):
    """A time in ms; under a name that ends in `.hours`, `.minutes` or `.mins` in that unit."""


@dataclass(frozen=True, slots=True)
class Float:
    """A number within `[minimum, maximum]`."""

    minimum: float = float("-inf")
    maximum: float = float("inf")

    def parse(self, text: str) -> float:
        return float(text.strip())

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and self.minimum <= value <= self.maximum

    @property
    def allowed(self) -> str:
        return f"a number from {self.minimum} to {self.maximum}"


@dataclass(frozen=True, slots=True)
class Bool:
    """`true` or `false`, in any case."""

    def parse(self, text: str) -> bool:
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError
        return lowered == "true"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)

    @property
    def allowed(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Str:
    """Text; one of `choices` where there are any (compared without case, kept as declared).

    `spellings` are other ways to write a choice, in lower case, such as another generation's.
    """

    choices: tuple[str, ...] = ()
    empty: bool = True
    spellings: Mapping[str, str] = field(default_factory=dict)

    def parse(self, text: str) -> str:
        text = text.strip()
        for choice in self.choices:
            if choice.lower() == text.lower():
                return choice
        return self.spellings.get(text.lower(), text)

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, str) or (self.choices and value not in self.choices):
            return False
        return bool(value) or self.empty

    @property
    def allowed(self) -> str:
        if self.choices:
            others = f" (or {', '.join(self.spellings)})" if self.spellings else ""
            return "one of " + ", ".join(self.choices) + others
        return "text" if self.empty else "text that is not empty"


@dataclass(frozen=True, slots=True)
class StrList:
    """Texts separated by commas."""

    minimum: int = 0

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in text.split(",") if part.strip())

    def accepts(self, value: Any) -> bool:
        return isinstance(value, tuple) and len(value) >= self.minimum

    @property
    def allowed(self) -> str:
        least = f", at least {self.minimum}" if self.minimum else ""
        return f"a list of texts separated by commas{least}"


@dataclass(frozen=True, slots=True)
class StrMap:
    """`name:value` pairs separated by commas; values are whole numbers."""

    def parse(self, text: str) -> dict[str, int]:
        pairs = (part.rpartition(":") for part in text.split(",") if part.strip())
        return {name.strip(): int(value) for name, _, value in pairs}

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    @property
    def allowed(self) -> str:
        return "name:number pairs separated by commas"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings (with the factor of their unit), kind and documentation."""

    keys: tuple[tuple[str, int], ...]
    kind: OptionKind[Any]
    doc: str


def option(names: str, kind: OptionKind[T], default: D, doc: str) -> T | D:
    """Declare a field that properties can set.

    Args:
        names: its spellings, separated by spaces, the preferred one first.
        kind: what values it takes.
        default: value when no spelling is present.
        doc: one or two sentences with the unit; they become the reference manual.
    """
    metadata = {_METADATA: _option(names, kind, doc)}
    if isinstance(default, dict):
        made: Any = field(default_factory=dict, metadata=metadata)
    else:
        made = field(default=default, metadata=metadata)
    declared: T | D = made
    return declared


def required(names: str, kind: OptionKind[T], doc: str) -> T:
    """Declare a field that properties must set; see `option`."""
    made: Any = field(metadata={_METADATA: _option(names, kind, doc)})
    declared: T = made
    return declared


def _option(names: str, kind: OptionKind[Any], doc: str) -> Option:
    units = _UNITS_MS if isinstance(kind, Ms) else {}
    keys = tuple((name, units.get(name.rpartition(".")[2], 1)) for name in names.split())
    return Option(keys, kind, doc)


class _Declared(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


C = TypeVar("C", bound=_Declared)


_options: dict[type[Any], tuple[tuple[Field[Any], Option], ...]] = {}
"""By class: each topic has a configuration, which is validated."""


def options(config: type[_Declared]) -> tuple[tuple[Field[Any], Option], ...]:
    """Return each field of a configuration class that properties can set, with its option."""
    if config not in _options:
        _options[config] = tuple(
            (declared, declared.metadata[_METADATA])
            for declared in fields(config)
            if _METADATA in declared.metadata
        )
    return _options[config]


def validate(config: _Declared) -> None:
    """Check every option of a configuration made by hand; call it from `__post_init__`.

    Raises:
        ConfigError: a value is not allowed.
    """
    for declared, declared_option in options(type(config)):
        value = getattr(config, declared.name)
        if declared.default is not MISSING and value == declared.default:
            continue
        if not declared_option.kind.accepts(value):
            raise bad_value(declared_option.keys[0][0], value, declared_option.kind)


def from_properties(
    config: type[C],
    properties: Mapping[str, str],
    *,
    warn: Callable[[str], None] | None = None,
    also_known: Iterable[str] = (),
    others: Mapping[str, Any] | None = None,
) -> C:
    """Build a configuration from properties.

    Args:
        config: a dataclass whose fields are declared with `option`. An `IGNORED` class attribute,
            if any, maps known keys without effect to the reason.
        properties: key → text, as read from a file or the command line.
        warn: receives each warning; the module's logger by default.
        also_known: keys that others read; a misspelt key may mean one of them.
        others: values of fields that are no options.

    Raises:
        ConfigError: a value is not allowed, or a required key is missing.
    """
    report = warn if warn is not None else logger.warning
    ignored: Mapping[str, str] = getattr(config, "IGNORED", {})
    known: set[str] = set()
    values: dict[str, Any] = dict(others or {})
    for declared, declared_option in options(config):
        known.update(key for key, _ in declared_option.keys)
        present = next((pair for pair in declared_option.keys if pair[0] in properties), None)
        if present is not None:
            key, factor = present
            values[declared.name] = parse_value(key, properties[key], declared_option.kind, factor)
        elif declared.default is MISSING and declared.default_factory is MISSING:
            spelled = " (or ".join(key for key, _ in declared_option.keys[:2])
            closing = ")" if len(declared_option.keys) > 1 else ""
            raise ConfigError(
                f"{spelled}{closing} is required: {declared_option.kind.allowed}. "
                f"{declared_option.doc}"
            )
    for key in properties:
        if key in ignored:
            report(f"config key={key} has no effect: {ignored[key]}")
        elif key not in known:
            hint = nearest(key, [*known, *ignored, *also_known])
            report(f"config key={key} is unknown and ignored{hint}")
    return config(**values)


def quiet(text: str) -> None:
    """Drop a warning: of properties whose keys were looked at before."""


def keys(*configs: type[_Declared]) -> frozenset[str]:
    """Return every spelling of the options of configuration classes."""
    return frozenset(
        key for config in configs for _, declared in options(config) for key, _ in declared.keys
    )


def of_group(group: type, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a group of options reads or names as ignored."""
    known = keys(group) | getattr(group, "IGNORED", {}).keys()
    return {key: text for key, text in properties.items() if key in known}


def nearest(key: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known name that an unknown one resembles, if any."""
    near = difflib.get_close_matches(key, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def property_text(key: str, value: object) -> str:
    """Return a property that a program gave as the text of a property file.

    Raises:
        ConfigError: it is no text, number or truth value.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(
        f"{key}={value!r} is not allowed: give a text, a number, True or False, not a "
        f"{type(value).__name__}"
    )


def parse_value(key: str, text: str, kind: OptionKind[Any], factor: int = 1) -> Any:
    """Return the value of one property.

    Args:
        key: its name, for the message.
        text: as given.
        kind: what values it takes.
        factor: of the unit of the key; a negative number is no time, and stays as it is.

    Raises:
        ConfigError: the value is not allowed.
    """
    try:
        value: Any = kind.parse(text)
    except ValueError:
        raise bad_value(key, text, kind) from None
    if factor != 1 and value >= 0:
        value *= factor
    if not kind.accepts(value):
        raise bad_value(key, text, kind)
    return value


def bad_value(key: str, value: object, kind: OptionKind[Any]) -> ConfigError:
    """Return the error for a value that is not allowed."""
    return ConfigError(f"{key}={value!r} is not allowed: give {kind.allowed}")
