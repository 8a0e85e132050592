r"""Small text files beside the partitions, in genuine Kafka's layout.

    offset checkpoint            leader-epoch-checkpoint     meta.properties
    0                            0                           #<date>
    <count>                      <count>                     version=0
    <topic> <partition> <offset> <epoch> <start offset>      broker.id=<id>
    ...                          ...                         cluster.id=<id>

Invariant: a file is replaced as a whole, so a reader sees the old content or the new. A file that
cannot be read raises a `StorageError` that names the file and the line.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zkbroker.config.properties import parse_properties
from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.names import META_PROPERTIES, TopicPartition

_VERSION = "0"
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """Read an offset checkpoint; a file that does not exist is empty.

    Raises:
        StorageError: the file is not an offset checkpoint, or is cut off.
    """
    found: dict[TopicPartition, int] = {}
    for number, row in _read_rows(path):
        try:
            topic, partition, offset = row
            tp = TopicPartition(topic, _number(partition, _MAX_INT32))
            found[tp] = _number(offset, _MAX_INT64)
        except ValueError:
            raise _malformed(path, number) from None
    return found


def write_offsets(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint."""
    rows = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    _write_rows(fs, path, rows)


def read_epochs(path: Path) -> list[tuple[int, int]]:
    """Read a leader epoch checkpoint as (epoch, start offset), oldest first.

    Raises:
        StorageError: the file is not a leader epoch checkpoint, or is cut off.
    """
    found: list[tuple[int, int]] = []
    for number, row in _read_rows(path):
        try:
            epoch, start = row
            pair = _number(epoch, _MAX_INT32), _number(start, _MAX_INT64)
        except ValueError:
            raise _malformed(path, number) from None
        if found and (pair[0] <= found[-1][0] or pair[1] < found[-1][1]):
            raise StorageError(f"{path} line {number}: epochs and start offsets must increase")
        found.append(pair)
    return found


def write_epochs(
    fs: FileSystem, path: Path, epochs: list[tuple[int, int]], *, durable: bool = True
) -> None:
    """Replace a leader epoch checkpoint; see `FileSystem.write_file`."""
    _write_rows(fs, path, [f"{epoch} {start}" for epoch, start in epochs], durable=durable)


def _read_rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if not lines:
        return []
    if lines[0].strip() != _VERSION:
        raise StorageError(f"{path} line 1: version {lines[0]!r} is not supported, only 0")
    try:
        count = _number(lines[1], _MAX_INT32)
    except (IndexError, ValueError):
        raise _malformed(path, 2) from None
    rows = [(number, line.split()) for number, line in enumerate(lines[2:], 3) if line.strip()]
    if len(rows) != count:
        raise StorageError(f"{path} announces {count} lines but has {len(rows)}")
    return rows


def _number(text: str, most: int) -> int:
    """Read a number; ValueError for one that is negative or too large."""
    number = int(text)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is not in 0 to {most}")
    return number


def _write_rows(fs: FileSystem, path: Path, rows: list[str], *, durable: bool = True) -> None:
    text = "\n".join([_VERSION, str(len(rows)), *rows]) + "\n"
    fs.write_file(path, text.encode(), durable=durable)


def _malformed(path: Path, line: int) -> StorageError:
    return StorageError(f"{path} line {line} is malformed")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The broker and the cluster of a data directory."""

    broker_id: int | None
    cluster_id: str | None


def read_meta(directory: Path) -> MetaProperties:
    """Read `meta.properties` of a data directory; without that file both ids are None.

    Raises:
        StorageError: the file has another version, or is not a broker's.
        OSError: the file cannot be read.
    """
    path = directory / META_PROPERTIES
    try:
        properties = parse_properties(path.read_text(encoding="utf-8"))
        version = properties.get("version")
        if version != _VERSION:
            found = "no version" if version is None else f"version={version}"
            raise StorageError(
                f"{path} has {found}, and only version=0 can be read: it belongs to another kind "
                "of broker, or is damaged. Give other log.dirs; if it is damaged, write the lines "
                "version=0 and broker.id=<id of the broker> into it"
            )
        broker_id = properties.get("broker.id")
        return MetaProperties(
            None if broker_id is None else int(broker_id), properties.get("cluster.id")
        )
    except FileNotFoundError:
        return MetaProperties(None, None)
    except ValueError as error:
        raise StorageError(f"cannot read {path}: {error}") from error


def write_meta(fs: FileSystem, directory: Path, meta: MetaProperties) -> None:
    """Replace `meta.properties` of a data directory."""
    now = dt.datetime.now(dt.UTC)
    lines = [f"#{now:%a %b %d %H:%M:%S UTC %Y}", "version=0"]
    if meta.broker_id is not None:
        lines.append(f"broker.id={meta.broker_id}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    fs.write_file(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode())
