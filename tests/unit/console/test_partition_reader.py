"""Reading goes on past bytes that are not an entry."""

from types import SimpleNamespace

import pytest

from zkbroker.console import partition_reader
from zkbroker.console.partition_reader import PartitionReader
from zkbroker.records import encode_message_set

GARBAGE = b"\xff" * 100
ANSWERS = {
    0: encode_message_set([(None, b"a", 1, ())]) + GARBAGE,
    1: GARBAGE,
    2: encode_message_set([(None, b"c", 1, ())], base_offset=2),
}


@pytest.fixture
def reader(monkeypatch):
    def fetch_one(connection, key, want, settings):
        return SimpleNamespace(
            records=ANSWERS[want.offset], high_watermark=3, aborted_transactions=None
        )

    monkeypatch.setattr(partition_reader, "fetch_one", fetch_one)
    monkeypatch.setattr(partition_reader, "valid_range", lambda *_: (0, 3))
    connection = SimpleNamespace(best_version=lambda key: 0)
    cluster = SimpleNamespace(leader=lambda *_: 1, connection=lambda *_: connection)
    return PartitionReader(cluster, "t", 0, 1000)


@pytest.mark.parametrize("begin", [0, 1])
def test_bytes_that_are_not_an_entry_are_one_record(reader, begin):
    reader.seek(begin)
    found = []
    while not reader.at_end:
        found += [(each.offset, each.state) for each in reader.chunk()]
    assert found == [(0, "committed"), (1, "corrupt"), (2, "committed")][begin:]
