"""Fetched bytes to messages, a whole chunk at a time.

One call makes the list of a chunk's messages: no Python function is called for each message.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zkbroker.consumer.fetching.messages import MessageAndMetadata
from zkbroker.errors import ProtocolError
from zkbroker.records import decode_rows


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """The messages of a chunk; `error` is that of the entry after the last of them.

    `last_offset` is that of the last message, None when there is none; `count` says how many.
    """

    messages: Iterator[MessageAndMetadata]
    last_offset: int | None
    error: ProtocolError | None
    count: int


Decode = Callable[[str, int, bytes | memoryview, int], DecodedChunk]
"""Turns fetched bytes into messages; arguments as of `decode_chunk`."""


def decode_chunk(
    topic: str, partition: int, records: bytes | memoryview, start_offset: int
) -> DecodedChunk:
    """Decode the messages of a message set from `start_offset` on; CRCs are verified.

    Args:
        topic: name for the messages.
        partition: number for the messages.
        records: a message set of any magic, its last entry perhaps cut off.
        start_offset: messages below it are left out.
    """
    rows, error = decode_rows(
        MessageAndMetadata, topic, partition, records, start_offset=start_offset
    )
    return DecodedChunk(iter(rows), rows[-1].offset if rows else None, error, len(rows))
