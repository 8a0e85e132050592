"""Fetched bytes to messages, a whole chunk at a time.

The fields are decoded in bulk into lists; the messages are put together by `zip` and `map` inside
the interpreter as they are read, so that no Python function is called for a single message and
none of them lives longer than its reader needs it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat

from zkbroker.consumer.fetching.messages import MessageAndMetadata
from zkbroker.errors import ProtocolError
from zkbroker.records import decode_lists


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """The messages of a chunk; `error` is what is wrong with the entry after the last of them.

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
    lists = decode_lists(records, start_offset=start_offset)
    rows = zip(
        repeat(topic),
        repeat(partition),
        lists.offsets,
        lists.keys,
        lists.values,
        lists.timestamps,
        lists.timestamp_types,
        repeat(()) if lists.headers is None else lists.headers,
        # The endless ones end with the others.
        strict=False,
    )
    # What `MessageAndMetadata(*row)` would do, without its Python constructor.
    messages = map(tuple.__new__, repeat(MessageAndMetadata), rows)
    return DecodedChunk(
        messages, lists.offsets[-1] if lists.count else None, lists.error, lists.count
    )
