import struct
import threading
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from zkbroker.errors import CorruptMessage, MessageSizeTooLarge
from zkbroker.records import Codec, compress, decompress

CODECS = [codec for codec in Codec if codec]
TEXT = b"GET /index.html 200 " * 5000


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.sampled_from(CODECS), st.binary(max_size=300), st.integers(0, 3000))
def test_compression_round_trips(codec, data, repeats):
    for magic in (0, 2):
        assert decompress(codec, compress(codec, data * repeats, magic=magic)) == data * repeats


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, level) for level in (0, 3, 4, 9)]
    + [(Codec.LZ4, level) for level in (0, 3, 9, 12)]
    + [(Codec.ZSTD, level) for level in (1, 3, 19)],
)
def test_every_compression_level_round_trips(codec, level):
    assert decompress(codec, compress(codec, TEXT, level=level)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_stream_is_refused(codec):
    packed = compress(codec, TEXT[:2000])
    for cut in range(len(packed)):
        try:
            assert decompress(codec, packed[:cut]) == TEXT[:2000][: 0 if cut <= 16 else None]
        except CorruptMessage:
            continue


@pytest.mark.parametrize("codec", CODECS)
def test_decompression_limit_is_exact(codec):
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, max_bytes=len(TEXT)) == TEXT
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(MessageSizeTooLarge):
        decompress(codec, packed, max_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", [number for number in range(8) if number not in CODECS])
def test_unknown_codec_number_is_refused(codec):
    with pytest.raises(CorruptMessage):
        decompress(codec, b"abc")


def test_concatenated_gzip_members_are_one_stream():
    packed = compress(Codec.GZIP, b"one") + compress(Codec.GZIP, b"two")
    assert decompress(Codec.GZIP, packed) == b"onetwo"
    assert decompress(Codec.GZIP, packed + b"\x00\x00") == b"onetwo"
    long = bytes(n * n % 251 for n in range(20_000))
    packed = compress(Codec.GZIP, b"one") + zlib.compress(long, 0, wbits=31)
    assert (
        decompress(Codec.GZIP, packed + compress(Codec.GZIP, b"three")) == b"one" + long + b"three"
    )
    for cut in (len(packed) - 1, len(packed) - 9000, len(compress(Codec.GZIP, b"one")) + 5):
        with pytest.raises(CorruptMessage, match="cut off"):
            decompress(Codec.GZIP, packed[:cut])
    with pytest.raises(MessageSizeTooLarge):
        decompress(Codec.GZIP, packed, max_bytes=20_002)
    assert len(decompress(Codec.GZIP, packed, max_bytes=20_003)) == 20_003


def test_rest_of_a_stream_is_not_copied_for_each_gzip_member(monkeypatch):
    copied = 0
    real = isal_zlib.decompressobj

    class Counting:
        def __init__(self, bits):
            self._stream = real(bits)

        def __getattr__(self, name):
            nonlocal copied
            found = getattr(self._stream, name)
            copied += len(found) if name == "unused_data" else 0
            return found

    monkeypatch.setattr(isal_zlib, "decompressobj", Counting)
    packed = compress(Codec.GZIP, b"") * 2000
    assert decompress(Codec.GZIP, packed) == b""
    assert copied < len(packed) + 2000 * 5000


def test_snappy_is_written_in_xerial_blocks_and_read_in_both_forms():
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    position, sizes = 16, []
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        sizes.append(len(snappy.uncompress(packed[position + 4 : position + 4 + size])))
        position += 4 + size
    assert sizes == [32768, 32768, 32768, len(TEXT) - 3 * 32768]
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT)) == TEXT


def test_lz4_header_checksum_depends_on_magic():
    # Genuine brokers wrote 1a and 82 after the same six bytes.
    old = compress(Codec.LZ4, TEXT, magic=0)
    new = compress(Codec.LZ4, TEXT, magic=1)
    assert old[:7].hex() == "04224d1860401a"
    assert new[:7].hex() == "04224d18604082"
    assert decompress(Codec.LZ4, old) == decompress(Codec.LZ4, new) == TEXT
    with pytest.raises(CorruptMessage, match="checksum"):
        decompress(Codec.LZ4, new[:6] + b"\x00" + new[7:])


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("stored_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_lz4_frames_of_other_writers_are_read(linked, stored_size, checksum):
    frame = lz4.frame.compress(
        TEXT, block_linked=linked, store_size=stored_size, content_checksum=checksum
    )
    assert decompress(Codec.LZ4, frame) == TEXT


def test_zstd_frames_without_size_are_bounded():
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert decompress(Codec.ZSTD, packed) == TEXT
    with pytest.raises(MessageSizeTooLarge):
        decompress(Codec.ZSTD, packed, max_bytes=1000)
    with pytest.raises(CorruptMessage):
        decompress(Codec.ZSTD, packed[:-3])


@pytest.mark.parametrize("codec", CODECS)
def test_threads_compress_concurrently(codec):
    wrong = []

    def work(number):
        for turn in range(30):
            data = b"%d" % number * (500 + turn)
            if decompress(codec, compress(codec, data)) != data:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_zstd_frame_with_false_size_is_refused():
    # Magic, a single segment with its size in 4 bytes, 127 MiB; then one block of one byte.
    frame = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", 127 * 1024 * 1024) + b"\x09\x00\x00a"
    assert zstandard.frame_content_size(frame) == 127 * 1024 * 1024
    with pytest.raises(CorruptMessage, match="claims to hold"):
        decompress(Codec.ZSTD, frame)
