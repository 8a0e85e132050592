"""The map beside the file that a view writes."""

from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.map_file import MapFile, make_map
from zkbroker.log.legacy07.offset_map import MapHead, MapReader, MapRecord, map_of
from zkbroker.records.generations import PLAIN_1

HEAD = MapHead(partition=3, position=0, offset=17, epoch=2)
RECORD = MapRecord(PLAIN_1, 0, 50, 17, 4, 123, 2)
NEXT = RECORD._replace(position=50, offset=21)


def test_each_file_has_its_own_map(tmp_path):
    fs = FileSystem()
    kafka, following = (tmp_path / f"{start:020d}.kafka" for start in (0, 50))
    fs.close(make_map(fs, map_of(kafka), HEAD))
    file = MapFile(fs, kafka)
    file.append([RECORD, NEXT])
    next_head = HEAD._replace(position=50, offset=21)
    file.begin(following, next_head)
    file.append([NEXT])
    file.close()
    first, second = MapReader(map_of(kafka)), MapReader(map_of(following))
    assert (first.head, list(first.records())) == (HEAD, [RECORD, NEXT])
    assert (second.head, list(second.records())) == (next_head, [NEXT])


def test_new_map_replaces_existing_file(tmp_path):
    fs = FileSystem()
    path = tmp_path / f"{0:020d}.map"
    path.write_bytes(bytes(1000))
    fs.close(make_map(fs, path, HEAD))
    assert MapReader(path).valid_bytes == path.stat().st_size < 1000
