from dataclasses import dataclass
from typing import ClassVar

import pytest

from zkbroker.config.schema import (
    Bool,
    Float,
    Int,
    Ms,
    Str,
    StrList,
    StrMap,
    from_properties,
    option,
    required,
    validate,
)
from zkbroker.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    IGNORED: ClassVar = {"num.io.threads": "greenlets need no count"}

    # fmt: off
    group: str = required("group.id groupid", Str(empty=False), "The group.")
    port: int = option("port", Int(0, 65535), 9092, "Port.")
    roll_ms: int = option("log.roll.ms log.roll.hours", Ms(1), 604_800_000,
        "Age at which a segment is rolled, in milliseconds.")
    dirs: tuple[str, ...] = option("log.dirs log.dir", StrList(1), ("/tmp",), "Directories.")
    enabled: bool = option("enabled", Bool(), True, "Switch.")
    codec: str = option("codec", Str(("none", "GZIP")), "none", "Codec.")
    ratio: float = option("ratio", Float(0, 1), 0.5, "Ratio.")
    topics: dict[str, int] = option("topics", StrMap(), {}, "Topics.")
    # fmt: on

    def __post_init__(self):
        validate(self)


def build(**properties):
    warnings = []
    config = from_properties(
        Sample,
        {"group.id": "g"} | {k.replace("_", "."): v for k, v in properties.items()},
        warn=warnings.append,
    )
    return config, warnings


def test_defaults_with_required_key_only():
    config, warnings = build()
    assert (config.group, config.port, config.enabled, warnings) == ("g", 9092, True, [])


def test_all_kinds_are_parsed():
    config, _ = build(
        port="1", enabled="FALSE", codec="gzip", ratio="0.25", log_dirs="/a, /b", topics="x:2,y:3"
    )
    assert (config.port, config.enabled, config.codec, config.ratio) == (1, False, "GZIP", 0.25)
    assert config.dirs == ("/a", "/b")
    assert config.topics == {"x": 2, "y": 3}


def test_first_declared_key_is_used():
    config, warnings = build(log_dirs="/new", log_dir="/old")
    assert config.dirs == ("/new",)
    assert not warnings


def test_key_in_other_unit_is_converted():
    assert build(log_roll_hours="2")[0].roll_ms == 7_200_000


def test_missing_required_key_is_refused():
    with pytest.raises(ConfigError, match=r"group\.id \(or groupid\) is required"):
        from_properties(Sample, {})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("port", "eighty", "a whole number from 0 up to 65535"),
        ("port", "70000", "a whole number from 0 up to 65535"),
        ("enabled", "yes", "true or false"),
        ("codec", "rar", "one of none, GZIP"),
        ("ratio", "2", "a number from 0 to 1"),
        ("topics", "x:many", "name:number pairs"),
        ("log.dirs", " , ", "at least 1"),
        ("log.roll.hours", "0", "a whole number from 1"),
    ],
)
def test_invalid_value_is_refused_with_key_and_allowed_values(key, value, allowed):
    with pytest.raises(ConfigError) as caught:
        from_properties(Sample, {"group.id": "g", key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)
    assert allowed in str(caught.value)


def test_unknown_key_is_warned_about_with_nearest():
    _, warnings = build(prot="1")
    assert warnings == ["config key=prot is unknown and ignored; did you mean port?"]


def test_key_without_effect_is_warned_about_with_reason():
    _, warnings = build(num_io_threads="8")
    assert warnings == ["config key=num.io.threads has no effect: greenlets need no count"]


def test_directly_made_configuration_is_validated():
    with pytest.raises(ConfigError, match="port"):
        Sample(group="g", port=-1)
