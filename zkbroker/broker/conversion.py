"""Converts messages for readers that are older than the stored format.

    small    at once
    medium   in another thread, several readers at the same time
    large    (beyond `LIGHT_BYTES` or `LIGHT_RECORDS` in one entry) in another thread, one at a time

Invariant: at most one large entry is decompressed in memory at a time, however many old readers
there are; a fetch that waits for its turn holds no request slot. Converted bytes count against
`fetch.conversion.max.bytes` with their real size until they are sent.
"""

from collections.abc import Callable

import gevent.lock

from zkbroker.broker.context import RequestContext
from zkbroker.codecs import CODEC_NAMES, FETCH_SINCE
from zkbroker.errors import MessageSizeTooLarge, UnsupportedCompressionType, UnsupportedVersion
from zkbroker.fileslice import FileSlice
from zkbroker.log import ReadResult
from zkbroker.log.segments.entries import walk
from zkbroker.records import MAX_DECOMPRESSED_BYTES, convert, iter_entries
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import Role

EVERYTHING_SINCE = max(FETCH_SINCE)
"""The version of Fetch from which on readers know every format and codec."""
INLINE_BYTES = 128 * 1024
LIGHT_BYTES = 4 * 1024 * 1024
LIGHT_RECORDS = 20_000
_INLINE_RECORDS = 1000


class DownConversion:
    """Converts for all fetches of a broker; `offload` calls a function in another thread."""

    def __init__(self, offload: Callable[..., bytes]) -> None:
        self._offload = offload
        self._large = gevent.lock.Semaphore(1)

    def read(
        self,
        read: Callable[[int, int], bytes],
        offset: int,
        size: int,
        magic: int,
        context: RequestContext,
    ) -> tuple[bytes, bool]:
        """Read from a partition and convert.

        Args:
            read: returns stored bytes from an offset on, as far as the reader sees, up to a size.
            offset: the first wanted offset.
            size: how many stored bytes the reader could get.
            magic: the newest that the reader knows, 0 or 1.
            context: of the fetch; reserves the memory.

        Returns:
            Whole messages, and whether memory allowed less than `size`.

        Raises:
            UnsupportedCompressionType: the reader does not know the first entry's codec.
            CorruptMessage, StorageError: it cannot be read.
        """
        limit = context.session.reserve_answer(size)
        at = offset
        while True:
            # An incomplete entry cannot be converted; converted messages are sent whole.
            data = read(at, limit)
            converted = self._convert(data, magic, offset, context)
            if converted or not data:
                context.session.correct_answer(len(converted) - limit)
                return converted, limit < size
            # All entries were skipped (control batches). Read on after them: otherwise the reader
            # would ask for the same offset for ever.
            at = max(entry.last_offset for entry in iter_entries(data)) + 1

    def older(
        self,
        role: Role,
        version: int,
        reader: ReadEnd,
        offset: int,
        found: ReadResult,
        context: RequestContext,
    ) -> tuple[FileSlice | bytes, bool]:
        """Return the result of a read for a reader of a version before `EVERYTHING_SINCE`.

        The slice of the result is returned or closed.

        Returns:
            The records, and whether memory allowed less than there is.

        Raises:
            UnsupportedVersion: conversion is off.
            UnsupportedCompressionType: the reader does not know the first entry's codec.
            CorruptMessage, StorageError: it cannot be read.
        """
        part = found.slice
        assert part is not None
        readable = 0 if version <= 1 else 1 if version <= 3 else 2
        try:
            too_new = readable < 2 and found.max_magic() > readable
            if not too_new:
                known = found.fetch_since() <= version
                return (part if known else _known_codecs(part, version)), False
        except BaseException:
            part.close()
            raise
        part.close()
        if not role.log.config.message_downconversion_enable:
            raise UnsupportedVersion(
                f"fetch version {version} reads message format {readable}, and "
                f"message.downconversion.enable=false"
            )
        return self.read(
            lambda at, limit: role.read_bytes(at, limit, reader=reader),
            offset,
            part.size,
            readable,
            context,
        )

    def _convert(self, data: bytes, magic: int, offset: int, context: RequestContext) -> bytes:
        most = max((entry.record_count for entry in iter_entries(data)), default=0)
        if len(data) <= INLINE_BYTES and most <= _INLINE_RECORDS:
            try:
                return _converted(data, magic, offset, INLINE_BYTES)
            except MessageSizeTooLarge:
                pass  # it expands further: use another thread
        if most <= LIGHT_RECORDS:
            try:
                return self._offload(_converted, data, magic, offset, LIGHT_BYTES)
            except MessageSizeTooLarge:
                pass  # it expands further: convert one at a time
        with context.park(lambda: None), self._large:
            return self._offload(_converted, data, magic, offset, MAX_DECOMPRESSED_BYTES)


def _converted(data: bytes, magic: int, offset: int, max_bytes: int) -> bytes:
    return convert(data, magic, first_offset=offset, max_decompressed_bytes=max_bytes)


def _known_codecs(part: FileSlice, version: int) -> FileSlice:
    """Return the entries before the first whose codec needs a later version of Fetch."""
    for position, entry in walk(part.fd, part.position, part.position + part.size):
        since = FETCH_SINCE[entry.codec]
        if since > version:
            if position == part.position:
                raise UnsupportedCompressionType(
                    f"{CODEC_NAMES[entry.codec]} needs Fetch v{since} or later"
                )
            return FileSlice(part.fd, part.position, position - part.position, part.close)
    return part
