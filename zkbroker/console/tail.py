"""The live tail of a topic: new messages, as server-sent events.

Invariant: at most `RATE` messages a second are sent; further ones are skipped and counted, so that
    a reader is never far behind. Each leader gets about two requests a second.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from zkbroker.client import Cluster
from zkbroker.client.fetch import Wanted, fetched, send_fetch
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.fetching import FetchSettings
from zkbroker.console.access import REQUEST_TIMEOUT_MS
from zkbroker.console.entries import StoredRecord, stored_records
from zkbroker.console.events import HEARTBEAT_S, event
from zkbroker.console.messages import message_row
from zkbroker.console.partition_reader import MAX_ENTRY_BYTES, records_of
from zkbroker.console.publication import dumps
from zkbroker.errors import CorruptMessage, ErrorCode, ZkbrokerError
from zkbroker.network.client.connection import Pending
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

RATE = 50
_ROUND_S = 0.5
_LANE = "console-tail"
_SHOWN = 16 * 1024
_PARTITION_BYTES = 256 * 1024
_RESPONSE_BYTES = 4 * 1024 * 1024
_SETTINGS = FetchSettings(
    max_wait_ms=50,
    timeout_ms=REQUEST_TIMEOUT_MS,
    partition_bytes=_PARTITION_BYTES,
    response_bytes=_RESPONSE_BYTES,
)


class Tail:
    """Follows partitions from their ends until `closed`: the console is ending.

    Raises:
        ZkbrokerError: the ends cannot be read.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: Sequence[int],
        runtime: Runtime,
        closed: Callable[[], bool],
    ) -> None:
        self._closed = closed
        self._cluster = cluster
        self._runtime = runtime
        keys = [(topic, number) for number in partitions]
        ends = resolve_offsets(cluster, dict.fromkeys(keys, LATEST_TIME))
        self._positions: dict[PartitionKey, int] = {key: ends[key] or 0 for key in keys}
        self._sizes = dict.fromkeys(keys, _PARTITION_BYTES)

    def events(self) -> Iterator[str]:
        """Yield events until the reader leaves."""
        silent_s = 0.0
        yield ": following\n\n"
        while not self._closed():
            lines: list[str] = []
            try:
                # Lines before an error stay in the list.
                lines.extend(self._round())
            except ZkbrokerError as error:
                lines.append(event("error", dumps({"error": str(error)})))
                self._runtime.sleep(1.0)
            yield from lines
            silent_s = 0.0 if lines else silent_s + _ROUND_S
            if silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield ": still here\n\n"
            self._runtime.sleep(_ROUND_S)

    def _round(self) -> Iterator[str]:
        left = round(RATE * _ROUND_S)
        skipped = 0
        found: list[StoredRecord] = []
        failure: ZkbrokerError | None = None
        try:
            for key, data, high_watermark in self._fetched():
                count = 0
                for record in _readable(data, key[1], self._positions[key]):
                    if record.offset >= high_watermark or count >= left:
                        break
                    found.append(record)
                    self._positions[key] = record.offset + 1
                    count += 1
                left -= count
                behind = high_watermark - self._positions[key]
                too_large = not count and len(data) >= MAX_ENTRY_BYTES
                if left <= 0 or behind > RATE or too_large:
                    skipped += max(0, behind)
                    self._positions[key] = max(high_watermark, self._positions[key])
        except ZkbrokerError as error:
            # The messages that were found before will not be fetched again.
            failure = error
        for record in sorted(found, key=lambda each: (each.time_ms, each.partition, each.offset)):
            yield event("message", dumps(message_row(record, _SHOWN)))
        if skipped:
            yield event("skipped", dumps({"n": skipped}))
        if failure is not None:
            raise failure

    def _fetched(self) -> Iterator[tuple[PartitionKey, bytes, int]]:
        by_leader: defaultdict[int, dict[PartitionKey, Wanted]] = defaultdict(dict)
        for key, position in self._positions.items():
            leader = self._cluster.leader(*key)
            if leader is not None:
                by_leader[leader][key] = Wanted(position, self._sizes[key])
        asked: list[Pending] = []
        for leader, wanted in by_leader.items():
            connection = self._cluster.connection(leader, _LANE)
            settings = replace(
                _SETTINGS, response_bytes=max(_RESPONSE_BYTES, *self._sizes.values())
            )
            asked.append(send_fetch(connection, wanted, settings))
        moved = False
        for pending in asked:
            for key, part in fetched(pending, _SETTINGS):
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    # The log was cut; the next round begins at its new end.
                    ends = resolve_offsets(self._cluster, {key: LATEST_TIME})
                    self._positions[key] = ends[key] or 0
                elif part.error_code:
                    moved = True
                else:
                    yield key, self._whole(key, records_of(part)), part.high_watermark
        if moved:
            self._cluster.refresh(sorted({topic for topic, _ in self._positions}))

    def _whole(self, key: PartitionKey, data: bytes) -> bytes:
        """Return the fetched bytes; fetch more if they hold not even one whole entry."""
        if data and not any(True for _ in _readable(data, key[1], self._positions[key])):
            self._sizes[key] = min(self._sizes[key] * 2, MAX_ENTRY_BYTES)
        else:
            self._sizes[key] = _PARTITION_BYTES
        return data


def _readable(data: bytes, partition: int, start: int) -> Iterator[StoredRecord]:
    """Yield the records up to the first bytes that are not an entry, committed or not."""
    try:
        yield from stored_records(data, partition, start, (), 0)
    except CorruptMessage as error:
        yield StoredRecord.unreadable(partition, start, error)
