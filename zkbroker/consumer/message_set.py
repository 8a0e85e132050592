"""Requests to the simple consumer, and its results."""

from collections.abc import Iterator
from dataclasses import dataclass

from zkbroker.errors import ProtocolError
from zkbroker.records import Record, iter_records

DEFAULT_FETCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A fetch of one partition: messages from `offset` on, about `max_bytes` of them."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = DEFAULT_FETCH_BYTES


def place(request: FetchRequest) -> str:
    """Return the partition and offset of a request, for errors."""
    return f"{request.topic}-{request.partition} at offset {request.offset}"


class MessageSet:
    """The messages of one fetch; iterate over it for `Record`s.

    Attributes:
        topic, partition, offset: of the request.
        raw: the bytes as they came, their last entry perhaps cut off.
        high_watermark: the offset after the last message that may be read; -1 with an error.
        next_offset: where the next fetch begins.
        error: why there are no messages (only in answers to `multifetch`); iterating raises it.
    """

    def __init__(
        self,
        request: FetchRequest,
        raw: bytes | memoryview = b"",
        *,
        high_watermark: int = -1,
        next_offset: int | None = None,
        error: ProtocolError | None = None,
    ) -> None:
        self.topic = request.topic
        self.partition = request.partition
        self.offset = request.offset
        self.raw = raw
        self.high_watermark = high_watermark
        self.next_offset = request.offset if next_offset is None else next_offset
        self.error = error

    def __iter__(self) -> Iterator[Record]:
        """Decode the messages, their CRC verified; control batches are not messages.

        Raises:
            CorruptMessage: at the entry whose CRC does not match.
        """
        if self.error is not None:
            raise self.error
        return iter_records(self.raw, start_offset=self.offset)
