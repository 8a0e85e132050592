"""Compression codecs of the message formats, with bounded decompression.

Attribute bits 0-2 of a message or batch name the codec. Snappy is written in xerial framing and
read with or without it; LZ4 is a frame whose header checksum was computed wrongly up to magic 0
(see `lz4frame`); Zstandard exists in magic 2 only.

Invariant: no input makes `decompress` return, or hold, much more than `max_bytes`.
"""

import threading
import zlib
from typing import Final, cast

import zstandard
from isal import isal_zlib

from zkbroker.codecs import Codec as Codec
from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import lz4frame, xerial

# Largest size that one compressed entry may expand to. A batch is compressed from at most a few
# MiB; this leaves room for very repetitive ones and bounds the cost of a hostile one.
MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024

# A block of at least four bytes holds at most 128 KiB.
_ZSTD_EXPANSION: Final = 32 * 1024
_GZIP_WINDOW_BITS: Final = 31
_GZIP_PIECE: Final = 4096
_ISAL_MAX_LEVEL: Final = 3
# The library's stubs declare its exception as an instance.
_ISAL_ERROR = cast("type[Exception]", isal_zlib.error)


class _PerThread(threading.local):
    """Zstandard contexts: they are costly to make and must not be shared between threads."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _PerThread()


def compress(
    codec: Codec, data: bytes | bytearray | memoryview, *, level: int | None = None, magic: int = 2
) -> bytes:
    """Compress the payload of one entry.

    Args:
        codec: any but NONE.
        data: the inner message set or records.
        level: of gzip (0-9; 0-3 by ISA-L, above by zlib), lz4 or zstd; None is the codec's default.
        magic: of the entry; LZ4 up to magic 0 has its own header checksum.
    """
    if codec == Codec.GZIP:
        if level is None or 0 <= level <= _ISAL_MAX_LEVEL:
            effort = _ISAL_MAX_LEVEL if level is None else level
            return isal_zlib.compress(data, effort, _GZIP_WINDOW_BITS)
        return zlib.compress(data, level, _GZIP_WINDOW_BITS)
    if codec == Codec.SNAPPY:
        return xerial.compress(data)
    if codec == Codec.LZ4:
        return lz4frame.compress(data, level=level, legacy_checksum=magic == 0)
    if codec == Codec.ZSTD:
        effort = 3 if level is None else level
        compressor = _zstd.compressors.get(effort)
        if compressor is None:
            compressor = _zstd.compressors[effort] = zstandard.ZstdCompressor(level=effort)
        return compressor.compress(data)
    raise ValueError("codec NONE cannot compress")


def decompress(
    codec: int, data: bytes | memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """Decompress the payload of one entry.

    Args:
        codec: the number in the attributes.
        data: the compressed bytes.
        max_bytes: the largest size that it may expand to.

    Raises:
        CorruptMessage: the codec is unknown, or the bytes are not a whole stream of it.
        MessageSizeTooLarge: it expands beyond `max_bytes`.
    """
    try:
        if codec == Codec.GZIP:
            out = _gunzip(data, max_bytes)
        elif codec == Codec.SNAPPY:
            out = xerial.decompress(data, max_bytes)
        elif codec == Codec.LZ4:
            out = lz4frame.decompress(data, max_bytes)
        elif codec == Codec.ZSTD:
            out = _unzstd(data, max_bytes)
        else:
            raise CorruptMessage(f"unknown compression codec {codec}")
    except (ValueError, RuntimeError, EOFError, _ISAL_ERROR, zstandard.ZstdError) as error:
        raise CorruptMessage(f"cannot decompress, codec {codec}: {error}") from error
    if len(out) > max_bytes:
        raise MessageSizeTooLarge(f"a compressed entry expands beyond {max_bytes} bytes")
    return out


def _gunzip(data: bytes | memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = max_bytes + 1
    view = memoryview(data)
    position, piece = 0, len(view)
    while True:
        stream = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        while room > 0 and not stream.eof:
            given = view[position : position + piece]
            if not given:
                raise EOFError("the gzip stream is cut off")
            part = stream.decompress(given, room)
            position += len(given)
            parts.append(part)
            room -= len(part)
        if room <= 0:
            break
        position -= len(stream.unused_data)
        if bytes(view[position : position + 2]) != b"\x1f\x8b":
            break
        # A stream copies what follows it: of many small members, each would copy all that is left.
        piece = _GZIP_PIECE
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unzstd(data: bytes | memoryview, max_bytes: int) -> bytes:
    if not len(data):
        raise EOFError("no zstd frame")
    size = zstandard.frame_content_size(data)
    if size > max_bytes:
        raise MessageSizeTooLarge(f"a compressed entry expands to {size} bytes, over {max_bytes}")
    if size > _ZSTD_EXPANSION * len(data):
        # The library would allocate the claimed size before it checks the frame.
        raise ValueError(f"a zstd frame of {len(data)} bytes claims to hold {size}")
    if size > 0:
        return _zstd.decompressor.decompress(data)
    source = _zstd.decompressor.decompressobj()
    parts: list[bytes] = []
    room = max_bytes
    view = memoryview(data)
    position = 0
    # A frame without its size is decompressed piece by piece: a small piece of input gives only a
    # bounded piece of output before the total is checked again.
    while position < len(view) and not source.eof and room >= 0:
        part = source.decompress(view[position : position + 4096])
        position += 4096
        parts.append(part)
        room -= len(part)
    if room >= 0 and not source.eof:
        raise EOFError("the zstd frame is cut off")
    return b"".join(parts)
