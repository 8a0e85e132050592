"""Handlers of the 0.7 listener, beside the recordings: failing disks and chosen partitions."""

import errno
import time

import pytest

from tests.support.process import open_files
from zkbroker.broker.legacy07.handlers import Handlers07
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.network.server.session import CloseConnection
from zkbroker.protocol.legacy07 import (
    Fetch07,
    MultiFetch07,
    MultiProduce07,
    Produce07,
    encode_request,
)
from zkbroker.records.legacy07 import Limits07, build_message
from zkbroker.runtime import get_runtime

ONE = build_message(b"hello")


class Session:
    context = None


class FailingOpens(FileSystem):
    broken = None

    def open(self, path, flags):
        if self.broken is not None and self.broken in path.parts:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().open(path, flags)


@pytest.fixture
def fs():
    return FailingOpens()


@pytest.fixture
def logs(tmp_path, fs):
    config = Legacy07Config(
        log_dir=str(tmp_path),
        flush_messages=1,
        num_partitions=3,
        file_bytes=1,
        max_message_bytes=100,
    )
    logs = Legacy07Logs(
        config,
        runtime=get_runtime("threads"),
        now_ms=lambda: int(time.time() * 1000),
        fs=fs,
    )
    logs.start()
    yield logs
    logs.close()


def handlers(logs, choose=lambda count: count - 1):
    return Handlers07(logs, Limits07(max_payload_bytes=100), get_runtime("threads"), choose)


def send(logs, request, *choose):
    return handlers(logs, *choose).handle(Session(), memoryview(encode_request(request)))


def test_partition_minus_one_is_chosen_per_message_set(logs):
    chosen = iter([2, 0])
    request = MultiProduce07((Produce07("t", -1, ONE), Produce07("t", -1, ONE)))
    send(logs, request, lambda count: next(chosen))
    assert set(logs.all()) == {("t", 2), ("t", 0)}


def test_corrupt_set_ends_multi_produce_after_earlier_sets(logs):
    bad = ONE[:-1] + b"?"
    sets = (Produce07("a", 0, ONE), Produce07("b", 0, bad), Produce07("c", 0, ONE))
    with pytest.raises(CloseConnection, match="CRC"):
        send(logs, MultiProduce07(sets))
    assert {key[0]: log.end for key, log in logs.all().items()} == {"a": len(ONE), "b": 0}


def test_other_sets_are_stored_when_oversized_set_is_dropped(logs):
    sets = (Produce07("a", 0, ONE + build_message(bytes(101))), Produce07("b", 0, ONE))
    assert send(logs, MultiProduce07(sets)) is None
    assert {key[0]: log.end for key, log in logs.all().items()} == {"a": 0, "b": len(ONE)}


def test_failed_open_closes_the_files_of_other_fetches(logs, fs, tmp_path):
    for topic in ("a", "b"):
        for _ in range(2):
            send(logs, Produce07(topic, 0, ONE))
    before = open_files(tmp_path)
    fs.broken = "b-0"
    fetches = MultiFetch07((Fetch07("a", 0, 0, 100), Fetch07("b", 0, 0, 100)))
    with pytest.raises(StorageError, match="Too many open files"):
        send(logs, fetches)
    assert open_files(tmp_path) == before
    fs.broken = None
    parts = send(logs, fetches)
    assert [len(part) for part in parts] == [6, 6, 15, 6, 15]
    for part in parts:
        if not isinstance(part, bytes):
            part.close()
    assert open_files(tmp_path) == before
