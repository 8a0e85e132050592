"""Entries behind a map get records as far as the master holds the same messages."""

import pytest

from tests.support.views07 import shown
from zkbroker.log.legacy07.master import MasterRead
from zkbroker.log.legacy07.offset_map import MapRecord
from zkbroker.log.legacy07.view_salvage import records_behind
from zkbroker.records import Codec
from zkbroker.records.generations import AS_SENT, PLAIN_0, PLAIN_1
from zkbroker.records.legacy07 import build_message, build_wrapper


class SingleMessageMaster:
    """A master of one message."""

    start, written_end = 0, 1

    def __init__(self, value):
        self.value = value

    def read(self, offset, end):
        return MasterRead([0], [self.value], 1)

    def epoch_of(self, offset):
        return 3


@pytest.fixture
def found(tmp_path):
    with shown(tmp_path) as made:
        made.modern(b"one", None)
        made.modern(b"two", b"three", codec=Codec.GZIP)
        yield made


def behind(found, data, skip=0, position=1000, offset=0):
    path = found.path / "file"
    path.write_bytes(bytes(skip) + data)
    records = list(records_behind(path, skip, position, offset, found.master))
    assert all(isinstance(each, MapRecord) for each in records)
    return [(each.kind, each.position, each.size, each.offset, each.messages) for each in records]


ONE, NULL = build_message(b"one"), build_message(b"")
PAIR = build_wrapper(Codec.SNAPPY, build_message(b"two") + build_message(b"three"))


def test_entries_that_match_master_get_records(found):
    whole = ONE + NULL + PAIR
    at = 1000 + len(ONE + NULL)
    plain = (PLAIN_1, 1000, len(ONE + NULL), 0, 2)
    sent = (AS_SENT, at, len(PAIR), 2, 2)
    assert behind(found, whole, skip=7) == [plain, sent]
    assert behind(found, PAIR, offset=2) == [(AS_SENT, 1000, len(PAIR), 2, 2)]
    for torn in (1, len(PAIR) - 1):
        assert behind(found, whole[: len(ONE + NULL) + torn]) == [plain]
    old = build_message(b"one", magic=0)
    assert behind(found, old + NULL) == [
        (PLAIN_0, 1000, len(old), 0, 1),
        (PLAIN_1, 1000 + len(old), len(NULL), 1, 1),
    ]


def test_records_end_where_master_differs(found):
    one = (PLAIN_1, 1000, len(ONE), 0, 1)
    for other in (
        build_message(b"not one"),
        build_wrapper(Codec.GZIP, b""),
        bytes(50),
        b"\xff" * 9,
    ):
        assert behind(found, ONE + other + NULL + PAIR) == [one]
    assert behind(found, ONE + NULL[:-1] + b"\x01" + PAIR) == [one]
    longer = build_wrapper(Codec.GZIP, b"".join(map(build_message, (b"two", b"three", b"four"))))
    assert behind(found, longer, offset=2) == []
    assert behind(found, NULL * 3 + ONE, offset=1) == [(PLAIN_1, 1000, len(NULL), 1, 1)]


def test_entry_larger_than_read_size_gets_record(found):
    data = build_message(b"x" * 3_000_000)
    found.master = SingleMessageMaster(b"x" * 3_000_000)
    assert behind(found, data) == [(PLAIN_1, 1000, len(data), 0, 1)]
