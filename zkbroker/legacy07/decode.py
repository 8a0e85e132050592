"""Decodes fetched bytes of a 0.7 log into messages of a stream.

The offset of a message is the next position to read, as in 0.7: its end, or for all but the last
message in a wrapper, the start of the wrapper. There is no key, no time and no header.
"""

from zkbroker.consumer.fetching.decode import DecodedChunk
from zkbroker.consumer.fetching.messages import MessageAndMetadata
from zkbroker.errors import CorruptMessage
from zkbroker.records.legacy07 import messages


def decode_chunk07(
    topic: str, partition: int, records: bytes | memoryview, start_offset: int
) -> DecodedChunk:
    """Decode whole entries that begin at `start_offset`; CRCs are verified.

    Args:
        topic: name for the messages.
        partition: a `Partition07` for the messages.
        records: bytes of the log.
        start_offset: position of the first byte.
    """
    found: list[MessageAndMetadata] = []
    error = None
    try:
        for each in messages(records, start_offset):
            found.append(  # noqa: PERF401 - what came before damage counts
                MessageAndMetadata(
                    topic, partition, each.next_offset, None, each.payload, -1, -1, ()
                )
            )
    except CorruptMessage as damage:
        error = damage
    return DecodedChunk(iter(found), found[-1].offset if found else None, error, len(found))
