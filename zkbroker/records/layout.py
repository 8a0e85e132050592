"""The byte layouts of the entries that log, broker and clients exchange.

    entry               offset:int64  size:int32  body[size]
    body, magic 0       crc:uint32  magic:int8  attributes:int8  key:bytes  value:bytes
    body, magic 1       crc:uint32  magic:int8  attributes:int8  timestamp:int64
                        key:bytes  value:bytes
    body, magic 2       partitionLeaderEpoch:int32  magic:int8  crc:uint32  attributes:int16
                        lastOffsetDelta:int32  baseTimestamp:int64  maxTimestamp:int64
                        producerId:int64  producerEpoch:int16  baseSequence:int32  count:int32
                        records
    key, value          length:int32 (-1 null)  bytes
    record (magic 2)    length:varint  attributes:int8  timestampDelta:varlong  offsetDelta:varint
                        keyLength:varint  key  valueLength:varint  value  headerCount:varint
                        { keyLength:varint  key  valueLength:varint  value }*
    attributes          bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control

The magic is byte 16 of an entry in all three. `offset` is the message's own in magic 0 and 1 (for a
compressed one the last inner offset), the first record's in magic 2. CRC-32 covers magic..value,
CRC-32C covers attributes..records, so a broker may assign offset and leader epoch in place.
"""

import struct
from typing import Final

SIZE_AT: Final = 8
MAGIC_AT: Final = 16
ENTRY_HEADER_BYTES: Final = 12
SMALLEST_HEADER_BYTES: Final = 17  # up to and including the magic

ENTRY: Final = struct.Struct(">qi")
OFFSET: Final = struct.Struct(">q")
INT32: Final = struct.Struct(">i")
UINT32: Final = struct.Struct(">I")

# offset, size, crc, magic, attributes, [timestamp,] key length
MESSAGE_V0: Final = struct.Struct(">qiIbbi")
MESSAGE_V1: Final = struct.Struct(">qiIbbqi")
MIN_SIZE_V0: Final = 14
MIN_SIZE_V1: Final = 22
CRC_V01_AT: Final = 12
ATTRIBUTES_V01_AT: Final = 17
TIMESTAMP_V1_AT: Final = 18

BATCH: Final = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_BYTES: Final = BATCH.size  # 61
MIN_SIZE_V2: Final = BATCH_HEADER_BYTES - ENTRY_HEADER_BYTES
LEADER_EPOCH_AT: Final = 12
CRC_V2_AT: Final = 17
CRC_V2_FROM: Final = 21
ATTRIBUTES_V2_LOW_AT: Final = 22
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_AT: Final = 43
PRODUCER: Final = struct.Struct(">qhi")  # id, epoch, base sequence
COUNT_AT: Final = 57

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

# Bounds that keep sums of a base and a delta within an int64; no real value is near them.
MAX_TIMESTAMP: Final = 2**62 - 1
MAX_OFFSET: Final = 2**63 - 2**32

# Size of a slot in compaction's table of keys and offsets.
SLOT_BYTES: Final = 24
