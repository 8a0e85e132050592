"""Recorded exchanges of genuine clients and brokers, and checks of many cases in one test."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from zkbroker.protocol.schema import wire_fields

GOLDEN = Path(__file__).parent.parent / "golden" / "data"


def recorded(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each exchange of a recording, with its place: the file, the line and the name."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, 1):
            entry = json.loads(line)
            yield f"{path.name}:{number} {entry['name']}", entry


@contextmanager
def case(name: object) -> Iterator[None]:
    """Name the case when it fails: one test of many cases costs less than a test for each."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the case was: {name}")
        raise


def plain(message: Any, version: int) -> Any:
    """Return a message as the recorder decoded it: only the fields that the version has."""
    if is_dataclass(message):
        return {
            field.name: plain(getattr(message, field.name), version)
            for field in wire_fields(type(message))
            if field.wire.present(version)
        }
    return [plain(each, version) for each in message] if isinstance(message, list) else message
