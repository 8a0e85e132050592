"""The payload of an entry, decompressed within a limit.

Invariant: every length is checked against the available bytes before it is believed.
"""

from zkbroker.codecs import CODEC_NAMES, FIRST_MAGIC
from zkbroker.errors import CorruptMessage
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, decompress
from zkbroker.records.entries import Data
from zkbroker.records.layout import BATCH_HEADER_BYTES, INT32, MESSAGE_V0, MESSAGE_V1
from zkbroker.records.record import EntryInfo


def batch_payload(data: Data, entry: EntryInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the records of a batch, decompressed."""
    payload = memoryview(data)[entry.position + BATCH_HEADER_BYTES : entry.position + entry.size]
    if entry.codec:
        return decompress(entry.codec, payload, max_bytes=max_bytes)
    return bytes(payload)


def split_message(data: Data, position: int, size: int, magic: int) -> tuple[int, int, int, int]:
    """Find the key and value of a message: key start, key length, value start, value length.

    Raises:
        CorruptMessage: the lengths do not fill the message exactly.
    """
    head = MESSAGE_V1.size if magic == 1 else MESSAGE_V0.size
    key_at = position + head
    key_size = INT32.unpack_from(data, key_at - 4)[0]
    end = position + size
    value_at = key_at + max(key_size, 0) + 4
    if key_size < -1 or value_at > end:
        raise CorruptMessage(f"a key of {key_size} bytes in a message of {size}")
    value_size = INT32.unpack_from(data, value_at - 4)[0]
    if value_size < -1 or value_at + max(value_size, 0) != end:
        raise CorruptMessage(f"a value of {value_size} bytes in a message of {size}")
    return key_at, key_size, value_at, value_size


def unwrap(data: Data, entry: EntryInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the message set inside a compressed message.

    Raises:
        CorruptMessage: there is no set, or it cannot be decompressed.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    _, _, value_at, value_size = split_message(data, entry.position, entry.size, entry.magic)
    if value_size < 0:
        raise CorruptMessage(f"a compressed message without a value at offset {entry.last_offset}")
    if FIRST_MAGIC[entry.codec] > entry.magic:
        raise CorruptMessage(f"{CODEC_NAMES[entry.codec]} cannot be in magic {entry.magic}")
    payload = memoryview(data)[value_at : value_at + value_size]
    return decompress(entry.codec, payload, max_bytes=max_bytes)
