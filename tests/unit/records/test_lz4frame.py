"""LZ4 frames with the right header checksum and with the one of old producers."""

import lz4.frame
import pytest

from zkbroker.records import lz4frame

TEXT = b"GET /index.html 200 " * 500


@pytest.mark.parametrize("legacy", [False, True])
def test_both_checksums_are_read(legacy):
    frame = lz4frame.compress(TEXT, legacy_checksum=legacy)
    assert lz4frame.decompress(frame, len(TEXT)) == TEXT


def test_only_the_right_checksum_is_taken_by_the_library():
    right, wrong = (lz4frame.compress(TEXT, legacy_checksum=each) for each in (False, True))
    assert right != wrong
    assert lz4.frame.decompress(right) == TEXT
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(wrong)


def test_a_header_with_the_content_size_is_checked_over_its_own_length():
    frame = lz4.frame.compress(TEXT, store_size=True)
    assert lz4frame.decompress(frame, len(TEXT)) == TEXT
    broken = bytearray(frame)
    broken[14] ^= 1
    with pytest.raises(ValueError, match="checksum is wrong"):
        lz4frame.decompress(bytes(broken), len(TEXT))


def test_it_stops_just_above_the_limit():
    assert len(lz4frame.decompress(lz4frame.compress(TEXT), 100)) == 101


@pytest.mark.parametrize(("cut", "reason"), [(5, "not an LZ4"), (-5, "is cut off")])
def test_a_frame_that_is_cut_off_is_refused(cut, reason):
    with pytest.raises(ValueError, match=reason):
        lz4frame.decompress(lz4frame.compress(TEXT)[:cut], len(TEXT))
