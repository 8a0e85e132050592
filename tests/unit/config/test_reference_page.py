"""The reference page of the manual contains every setting."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import zkbroker.config
from zkbroker.config.dynamic import CHANGEABLE
from zkbroker.config.ignored_broker_keys import IGNORED_PREFIXES
from zkbroker.config.schema import options

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
MODULES = [
    *(each.name for each in pkgutil.walk_packages(zkbroker.config.__path__, "zkbroker.config.")),
    "zkbroker.mirror.options",
]


def configurations() -> Iterator[type]:
    """Every class with options, wherever it is declared."""
    for name in MODULES:
        for _, found in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if found.__module__ == name and is_dataclass(found) and list(options(found)):
                yield found


def test_reference_page_contains_all_known_keys():
    known = {f"{prefix}…" for prefix in IGNORED_PREFIXES} | CHANGEABLE
    for config in configurations():
        known |= {key for _, option in options(config) for key, _ in option.keys}
        known |= getattr(config, "IGNORED", {}).keys()
    assert len(known) > 350
    page = set(re.findall(r"`([^`]+)`", PAGE.read_text(encoding="utf-8")))
    assert sorted(known - page) == []
