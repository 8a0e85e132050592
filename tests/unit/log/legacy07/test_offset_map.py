"""The bytes of a map file, how it is written, and how a reader treats a torn one."""

import struct
import zlib

import pytest

from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.offset_map import (
    CUT,
    HEAD_BYTES,
    RECORD_BYTES,
    MapFile,
    MapHead,
    MapReader,
    MapRecord,
    encode_head,
    encode_record,
    make_map,
    map_files,
    map_of,
    read_head,
)
from zkbroker.records.generations import AS_SENT, PLAIN_1

HEAD = MapHead(partition=3, position=400, offset=17, epoch=2)
PLAIN = MapRecord(PLAIN_1, 400, 50, 17, 4, 123, 2)
SENT = MapRecord(AS_SENT, 450, 5, 21, 1, zlib.crc32(b"bytes"), 2, b"bytes")
BACK = MapRecord(CUT, 455, 0, 19, 0, 0, 3)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / f"{400:020d}.map"
    path.write_bytes(encode_head(HEAD) + b"".join(map(encode_record, (PLAIN, SENT, BACK))))
    return path


def test_map_layout_byte_for_byte(path):
    head = struct.pack(">8siqqi", b"zkb07map", 3, 400, 17, 2)
    head += struct.pack(">I", zlib.crc32(head))
    plain = struct.pack(">bqiqiIi", 1, 400, 50, 17, 4, 123, 2)
    sent = struct.pack(">bqiqiIi", 2, 450, 5, 21, 1, zlib.crc32(b"bytes"), 2) + b"bytes"
    back = struct.pack(">bqiqiIi", 3, 455, 0, 19, 0, 0, 3)
    records = [struct.pack(">I", zlib.crc32(each)) + each for each in (plain, sent, back)]
    assert path.read_bytes() == head + b"".join(records)
    assert (len(head), len(plain) + 4) == (HEAD_BYTES, RECORD_BYTES)


def test_map_round_trips(path):
    reader = MapReader(path)
    assert reader.head == HEAD == read_head(path)
    assert list(reader.records()) == [PLAIN, SENT, BACK]
    assert reader.valid_bytes == path.stat().st_size
    assert [each.next_offset for each in (PLAIN, SENT, BACK)] == [21, 22, 19]


def test_reader_ends_before_torn_record(path):
    whole = path.read_bytes()
    ends = [HEAD_BYTES + RECORD_BYTES, HEAD_BYTES + 2 * RECORD_BYTES + 5, len(whole)]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        reader = MapReader(path)
        assert (reader.head is None) == (size < HEAD_BYTES)
        assert list(reader.records()) == [PLAIN, SENT, BACK][: sum(end <= size for end in ends)]
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        reader = MapReader(path)
        good = sum(end <= at for end in ends)
        assert list(reader.records()) == ([PLAIN, SENT, BACK][:good] if at >= HEAD_BYTES else [])


def test_reader_ends_at_non_consecutive_record(path):
    path.write_bytes(encode_head(HEAD) + encode_record(PLAIN) + encode_record(BACK))
    assert list(MapReader(path).records()) == [PLAIN]


def test_map_files_are_found_and_checked(path):
    assert map_files(path.parent) == [path]
    assert map_of(path.with_suffix(".kafka")) == path
    path.write_bytes(b"something else")
    with pytest.raises(StorageError, match="is not a map of a"):
        read_head(path)


FIRST_HEAD = HEAD._replace(position=0)
FIRST = PLAIN._replace(position=0)
SECOND = PLAIN._replace(position=50, offset=21)


def test_each_file_has_its_own_map(tmp_path):
    fs = FileSystem()
    kafka, following = (tmp_path / f"{start:020d}.kafka" for start in (0, 50))
    fs.close(make_map(fs, map_of(kafka), FIRST_HEAD))
    file = MapFile(fs, kafka)
    file.append([FIRST, SECOND])
    next_head = FIRST_HEAD._replace(position=50, offset=21)
    file.begin(following, next_head)
    file.append([SECOND])
    file.close()
    first, second = MapReader(map_of(kafka)), MapReader(map_of(following))
    assert (first.head, list(first.records())) == (FIRST_HEAD, [FIRST, SECOND])
    assert (second.head, list(second.records())) == (next_head, [SECOND])


def test_new_map_replaces_existing_file(tmp_path):
    fs = FileSystem()
    path = tmp_path / f"{0:020d}.map"
    path.write_bytes(bytes(1000))
    fs.close(make_map(fs, path, FIRST_HEAD))
    assert MapReader(path).valid_bytes == path.stat().st_size < 1000
