"""Recorded directories, frames and readings of genuine 0.7.2 brokers and clients."""

import io
import json
import lzma
import os
import re
import tarfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.logs import UnsyncedFileSystem
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.runtime import get_runtime

DATA = Path(__file__).parent.parent / "golden" / "data" / "legacy07"


class Fetched(NamedTuple):
    """One fetch of the Java SimpleConsumer with its messages."""

    offset: int
    max_bytes: int
    size: int
    valid: int
    messages: list[tuple[int, int, int, str]]


class Reading(NamedTuple):
    """One partition as the Java SimpleConsumer read it."""

    topic: str
    partition: int
    earliest: list[int]
    latest: list[int]
    starts: list[int]
    fetches: list[Fetched]


def unpack(directory: Path, name: str) -> Path:
    """Unpack a genuine data directory, such as `kafka-0.7.2-more/wire`; return its path."""
    with tarfile.open(DATA / "segments.tar.xz") as archive:
        members = [each for each in archive if each.name.startswith(name + "/")]
        assert members, name
        archive.extractall(directory, members, filter="tar")
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return directory / name


def wire_rows() -> list[dict]:
    """Return the recorded requests and answers."""
    return [
        json.loads(line) for line in lzma.open(DATA / "wire-0.7.2.jsonl.xz", "rt", encoding="utf-8")
    ]


def znodes(name: str) -> dict[str, tuple[str, str | None]]:
    """Return a recorded tree: path -> P or E, and the value."""
    with tarfile.open(DATA / "znodes.tar.xz") as archive:
        text = io.TextIOWrapper(archive.extractfile(name), "utf-8").read()
    tree = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        path, _, value = rest.partition("  ->  ")
        tree[path] = (kind, value or None)
    return tree


def readings(name: str) -> list[Reading]:
    """Return the report of the Java SimpleConsumer: `segments`, `recovered` or `wire`."""
    found: list[Reading] = []
    report = lzma.decompress((DATA / f"simpleconsumer-0.7.2-{name}.txt.xz").read_bytes())
    for line in report.decode().removesuffix("\n").split("\n"):
        if match := re.fullmatch(
            r"topic (\S+) partition (\d+): earliest (\[.*?\]) latest (\[.*?\]) .*first (\[.*\])",
            line,
        ):
            numbers = [json.loads(each) for each in match.groups()[2:]]
            found.append(Reading(match[1], int(match[2]), *numbers, []))
        elif match := re.match(
            r" fetch offset (\d+) max (\d+): sizeInBytes (\d+) validBytes (\d+) error 0", line
        ):
            found[-1].fetches.append(Fetched(*map(int, match.groups()), []))
        elif match := re.match(
            r"   next offset (\d+) magic (\d) codec NoCompressionCodec checksum (\d+) payload (.*)",
            line,
        ):
            row = (int(match[1]), int(match[2]), int(match[3]), match[4])
            found[-1].fetches[-1].messages.append(row)
        else:
            raise AssertionError(f"not understood: {line!r}")
    return found


def same_payload(text: str, payload: bytes) -> bool:
    """Whether a payload is the one in the report, which cuts long ones."""
    shown = re.fullmatch(r"(.*)\.\.\.\((\d+)\)", text)
    if shown:
        return payload.decode().startswith(shown[1]) and len(payload) == int(shown[2])
    return payload.decode() == text


def open_logs(
    directory: Path, *, now_ms=lambda: int(time.time() * 1000), fs=None, **settings
) -> Legacy07Logs:
    """Open a directory of 0.7 logs on threads; the caller closes it."""
    config = Legacy07Config(log_dir=str(directory), **settings)
    logs = Legacy07Logs(
        config, runtime=get_runtime("threads"), now_ms=now_ms, fs=fs or UnsyncedFileSystem()
    )
    logs.start()
    return logs


def read(log, offset: int, max_bytes: int) -> bytes:
    """Read bytes of a log as a fetch does."""
    part = log.read(offset, max_bytes)
    if part is None:
        return b""
    try:
        return os.pread(part.fd, part.size, part.position)
    finally:
        part.close()
