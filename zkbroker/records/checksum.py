"""The two checksums of the formats: CRC-32 (magic 0 and 1) and CRC-32C (magic 2).

CRC-32 covers a message from its magic byte to its end; CRC-32C covers a batch from its attributes
to its end. Both take any buffer without copying it, and return an unsigned integer.

CRC-32C comes from the extension if that was built: the library takes longer to import than the rest
of this room.
"""

import os

from isal.isal_zlib import crc32 as crc32

try:
    if os.environ.get("ZKBROKER_PURE_PYTHON", "0") not in ("", "0"):
        raise ImportError("plain Python is asked for")
    from zkbroker.records._speedups import crc32c as crc32c
except ImportError:
    from crc32c import crc32c as crc32c
