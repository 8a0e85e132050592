"""Fetched bytes to messages, a whole chunk at a time."""

from zkbroker.consumer.messages import MessageAndMetadata
from zkbroker.errors import CorruptMessage
from zkbroker.records import iter_records


def decode_chunk(
    topic: str, partition: int, records: bytes | memoryview, start_offset: int
) -> tuple[list[MessageAndMetadata], CorruptMessage | None]:
    """Decode the messages of a message set from `start_offset` on.

    Args:
        topic: name for the messages.
        partition: number for the messages.
        records: a message set of any magic, its last entry perhaps cut off.
        start_offset: messages below it are left out.

    Returns:
        The messages, and what is wrong with the entry after the last of them, if anything.
    """
    messages: list[MessageAndMetadata] = []
    try:
        for offset, timestamp, timestamp_type, key, value, headers in iter_records(
            records, start_offset=start_offset
        ):
            messages.append(
                MessageAndMetadata(
                    topic, partition, offset, key, value, timestamp, timestamp_type, headers
                )
            )
    except CorruptMessage as error:
        return messages, error
    return messages, None
