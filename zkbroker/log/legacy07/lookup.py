"""Look-ups in a view's maps: the offset of a position, the position of an offset.

Invariant: nothing is changed, so that this works beside a running broker. For a position or an
offset inside a wrapper, the answer is the wrapper's first message, or its beginning: a reader that
continues there gets messages again, and skips none.
"""

from collections.abc import Iterator
from pathlib import Path

from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.log import names
from zkbroker.log.legacy07.offset_map import CUT, MapReader, MapRecord, map_files, read_head
from zkbroker.records.generations import AS_SENT
from zkbroker.records.legacy07 import entries


class ViewMap:
    """The maps of one view.

    Args:
        directory: of the view, such as `visits-0`.

    Raises:
        StorageError: it is not a view, or its maps are damaged.
        OSError: it cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._files = map_files(directory)
        if not self._files:
            raise StorageError(f"{directory} is not a view of a newer topic: it has no map")
        first = read_head(self._files[0])
        self.partition = first.partition
        """The partition of the newer topic."""
        self.start = first.position
        """Its first position."""

    def offset_at(self, position: int) -> int:
        """Return the offset at which a reader at this position continues.

        Raises:
            OffsetOutOfRange: the view does not have the position yet, or no longer.
            StorageError: no message begins there.
        """
        reached, offset = self.start, read_head(self._files[0]).offset
        for record in self._records():
            if record.position <= position < record.end:
                return record.offset + self._messages_before(record, position)
            reached, offset = record.end, record.next_offset
        if position == reached:
            return offset
        raise OffsetOutOfRange(
            f"position {position} of {self.directory}: it has positions {self.start} to {reached}",
            earliest=self.start,
            latest=reached,
        )

    def position_of(self, offset: int) -> int:
        """Return the position at which a reader at this offset continues.

        Raises:
            OffsetOutOfRange: the offset is not shown yet, or no longer.
            StorageError: the view's file is damaged.
        """
        head = read_head(self._files[0])
        first, reached, position = head.offset, head.offset, head.position
        found: MapRecord | None = None
        for record in self._records():
            if record.kind == CUT:
                if found is not None and found.next_offset > record.offset:
                    # Offsets after the cut are shown again; offsets before it keep their positions.
                    found = found if offset < record.offset else None
            elif record.offset <= offset < record.next_offset:
                found = record
            elif record.offset > offset and found is None and offset >= first:
                # No message has that offset any more, or a marker had it: take the next message.
                found = record
            reached, position = record.next_offset, record.end
        if found is not None:
            return self._position_in(found, offset)
        if offset == reached:
            return position
        raise OffsetOutOfRange(
            f"offset {offset} of {self.directory}: it shows offsets {first} to {reached}",
            earliest=first,
            latest=reached,
        )

    def _records(self) -> Iterator[MapRecord]:
        for path in self._files:
            reader = MapReader(path)
            if reader.head is None:
                return
            yield from reader.records()

    def _messages_before(self, record: MapRecord, position: int) -> int:
        """Count the messages of a stretch that end at or before a position."""
        if record.kind == AS_SENT and position != record.position:
            raise self._inside(position)
        count, at = 0, record.position
        for end in self._ends(record):
            if at >= position:
                break
            count, at = count + 1, end
        if at != position:
            raise self._inside(position)
        return count

    def _position_in(self, record: MapRecord, offset: int) -> int:
        if record.kind == AS_SENT or offset <= record.offset:
            return record.position
        ends = list(self._ends(record))
        if len(ends) != record.messages:
            raise StorageError(
                f"{self.directory} is damaged at position {record.position}: it holds "
                f"{len(ends)} messages there, and its map has {record.messages}. Check it with "
                "zkbroker log check"
            )
        return ends[offset - record.offset - 1]

    def _ends(self, record: MapRecord) -> Iterator[int]:
        """Yield the position after each message of a stretch."""
        path = next(each for each in reversed(self._files) if int(each.stem) <= record.position)
        with path.with_suffix(names.KAFKA_07).open("rb") as file:
            file.seek(record.position - int(path.stem))
            data = file.read(record.size)
        for entry in entries(data):
            yield record.position + entry.end

    def _inside(self, position: int) -> StorageError:
        return StorageError(
            f"position {position} of {self.directory} is inside a message: no client of 0.7 "
            "commits that. Reset the group instead"
        )
