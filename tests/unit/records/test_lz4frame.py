"""LZ4 frames with the correct header checksum and with that of old producers."""

import lz4.frame
import pytest

from zkbroker.records import lz4frame

TEXT = b"GET /index.html 200 " * 500


def test_header_checksum_covers_content_size():
    frame = lz4.frame.compress(TEXT, store_size=True)
    assert lz4frame.decompress(frame, len(TEXT)) == TEXT
    broken = bytearray(frame)
    broken[14] ^= 1
    with pytest.raises(ValueError, match="checksum is wrong"):
        lz4frame.decompress(bytes(broken), len(TEXT))


def test_decompression_stops_just_above_limit():
    assert len(lz4frame.decompress(lz4frame.compress(TEXT), 100)) == 101


@pytest.mark.parametrize(("cut", "reason"), [(5, "not an LZ4"), (-5, "is cut off")])
def test_truncated_lz4_frame_is_refused(cut, reason):
    with pytest.raises(ValueError, match=reason):
        lz4frame.decompress(lz4frame.compress(TEXT)[:cut], len(TEXT))
