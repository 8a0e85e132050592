"""Finds messages of a topic from an offset or a time on, by key and by content.

    several partitions   records are merged by time; those of one partition keep their order

Invariant: a request reads at most `SCAN_BYTES`, takes about `SCAN_S`, and returns at most
`ANSWER_BYTES` of values; `next` continues where it stopped.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkbroker.console.decoding import SHOWN_BYTES, shown
from zkbroker.console.entries import StoredRecord
from zkbroker.console.partition_reader import OpenReader, Reader
from zkbroker.console.requests import Refused, bad, missing
from zkbroker.console.start_positions import Begin, Start
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced

SCAN_BYTES = 64 * 1024 * 1024
SCAN_S = 5.0
ANSWER_BYTES = 1024 * 1024
MAX_PARTITIONS = 100
_CHUNK_BYTES = 1024 * 1024
_LEAST_CHUNK_BYTES = 32 * 1024
_ALL_CHUNKS_BYTES = 8 * 1024 * 1024
_LEAST_SHOWN = 256
_MOST_ROWS = 1000
_TIME_TYPES = {-1: "none", 0: "create", 1: "append"}


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for.

    Args:
        start: where each partition begins.
        at: offsets of single partitions, which override `start`.
        limit: most messages to return.
        key: bytes of the whole key; None for any.
        contains: bytes somewhere in key or value; None for any.
    """

    start: Start
    at: Mapping[int, int]
    limit: int
    key: bytes | None = None
    contains: bytes | None = None

    def fits(self, record: StoredRecord) -> bool:
        """Whether a record matches."""
        if self.key is not None and record.key != self.key:
            return False
        if self.contains is None:
            return True
        return any(self.contains in part for part in (record.key, record.value) if part is not None)


def browse(
    open_reader: OpenReader,
    topic: str,
    partitions: Sequence[int],
    search: Search,
    runtime: Runtime,
) -> dict[str, Any]:
    """Return messages in the form of the API.

    Raises:
        ZkbrokerError: a leader does not answer.
    """
    if len(partitions) > MAX_PARTITIONS:
        raise bad(
            f"{topic} has {len(partitions)} partitions, more than {MAX_PARTITIONS} to merge: "
            "choose one of them"
        )
    # A topic that is being created may have no partition yet.
    share = _ALL_CHUNKS_BYTES // max(1, len(partitions))
    chunk = max(_LEAST_CHUNK_BYTES, min(_CHUNK_BYTES, share))
    readers = [open_reader(each, chunk) for each in partitions]
    for reader in readers:
        _begin(reader, search, len(readers))
    deadline_ms = runtime.clock_ms() + round(SCAN_S * 1000)

    def over() -> bool:
        read = sum(reader.bytes_read for reader in readers)
        return read >= SCAN_BYTES or runtime.clock_ms() >= deadline_ms

    found, places = _merged(readers, search, over, runtime)
    left = ANSWER_BYTES
    rows = []
    for number, record in enumerate(found):
        share = max(_LEAST_SHOWN, min(SHOWN_BYTES, left // (len(found) - number)))
        row = message_row(record, share)
        left -= _shown_bytes(row)
        rows.append(row)
    return {
        "messages": rows,
        "next": {str(int(reader.partition)): places[reader.partition] for reader in readers},
        "scanned": sum(reader.records_read for reader in readers),
        "ended": all(places[reader.partition] >= reader.end for reader in readers),
    }


def message_row(record: StoredRecord, most: int = SHOWN_BYTES) -> dict[str, Any]:
    """Return a record for the API. Args: most bytes of key, value and headers together."""
    key = shown(record.key, most // 4)
    value = shown(record.value, most)
    left = most
    headers = []
    for name, data in record.headers[:100]:
        # Names that are not UTF-8 contain surrogates, which JSON does not allow.
        text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        headers.append({"key": text[:1000], "value": shown(data, max(64, min(left, 4096)))})
        left -= len(data or b"")
        if left <= 0:
            break
    return {
        "partition": record.partition,
        "offset": record.offset,
        "inside": record.inside,
        "time_ms": record.time_ms if record.time_ms >= 0 else None,
        "time_type": _TIME_TYPES.get(record.time_type, "none"),
        "key": key,
        "value": value,
        "headers": headers,
        "headers_left_out": len(record.headers) - len(headers),
        "state": record.state,
        "format": record.magic,
        "compression": record.compression,
        "bytes": record.size,
        "error": record.error,
    }


def whole_part(
    open_reader: OpenReader, topic: str, partition: int, place: tuple[int, int], part: str
) -> bytes:
    """Return the whole `key` or `value` of the message at an offset and its index inside a set.

    Raises:
        Refused: there is no such message, or it is null.
        ZkbrokerError: the leader does not answer.
    """
    offset = place[0]
    reader = open_reader(partition, _CHUNK_BYTES)
    if not reader.start <= offset < reader.end:
        raise missing(
            f"{topic}-{partition} has offsets {reader.start} to {reader.end - 1} now, not {offset}"
        )
    reader.seek(offset)
    for record in reader.chunk():
        if record.offset > offset:
            break
        if (record.offset, record.inside) == place:
            if record.state == "corrupt":
                raise Refused(409, "corrupt", f"the message cannot be read: {record.error}")
            data = record.key if part == "key" else record.value
            if data is None:
                raise missing(f"the {part} of this message is null")
            return data
    raise missing(f"there is no message with offset {offset}: it was compacted, or is a marker")


def _begin(reader: Reader, search: Search, readers: int) -> None:
    start = search.start
    if reader.partition in search.at:
        reader.seek(search.at[reader.partition])
    elif start.begin is Begin.LATEST:
        reader.seek(reader.end)
    elif start.begin is Begin.OFFSET:
        reader.seek(start.value)
    elif start.begin is Begin.BACK:
        # Shared by all partitions.
        reader.seek(reader.end - -(-start.value // readers))
    elif start.begin is Begin.TIME:
        offset = reader.offset_at(start.value)
        reader.seek(reader.end if offset is None else offset)


def _merged(
    readers: Sequence[Reader],
    search: Search,
    over: Callable[[], bool],
    runtime: Runtime,
) -> tuple[list[StoredRecord], dict[int, int]]:
    """Return the first matching records, and the next offset of each partition."""
    streams = {reader.partition: _fitting(reader, search, over, runtime) for reader in readers}
    places: dict[int, int] = {}
    waiting: list[tuple[int, int, int, StoredRecord]] = []

    def advance(reader: Reader) -> None:
        record = next(streams[reader.partition], None)
        if record is None:
            places[reader.partition] = reader.position
        else:
            places[reader.partition] = record.offset
            heapq.heappush(waiting, (record.time_ms, record.partition, record.offset, record))

    by_number = {reader.partition: reader for reader in readers}
    for reader in readers:
        advance(reader)
    found: list[StoredRecord] = []
    # A set that shares one offset is shown whole, since reading cannot resume within it.
    within = False
    while waiting and (len(found) < search.limit or (within and len(found) < _MOST_ROWS)):
        *_, record = heapq.heappop(waiting)
        found.append(record)
        places[record.partition] = record.after
        within = record.after == record.offset
        if within or len(found) < search.limit:
            advance(by_number[record.partition])
    return found, places


def _fitting(
    reader: Reader, search: Search, over: Callable[[], bool], runtime: Runtime
) -> Iterator[StoredRecord]:
    while not reader.at_end and not over():
        for record in paced(runtime, reader.chunk(), 1000):
            if search.fits(record):
                yield record
        runtime.sleep(0)


def _shown_bytes(row: Mapping[str, Any]) -> int:
    parts = [row["key"], row["value"], *(each["value"] for each in row["headers"])]
    return sum(part["shown"] for part in parts if part is not None)
