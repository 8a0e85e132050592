"""0.7 logs after a power cut at any change: visible messages keep their bytes and positions."""

import random

import pytest

from tests.support import soak
from tests.support.clocks import Clock
from tests.support.legacy07 import open_logs, read
from tests.support.powercut import PowerCutFileSystem
from zkbroker.errors import StorageError
from zkbroker.records.legacy07 import build_message, whole_bytes


def live(directory, fs, chosen, clock, stream):
    """Append, flush and delete until the power cut; return the last end visible to readers."""
    seen = 0
    try:
        settings = {"file_bytes": 400, "retention_bytes": 900, "retention_ms": -1}
        settings |= {"flush_check_ms": 10**9, "cleanup_ms": 10**9}
        settings["flush_messages"] = chosen.choice([1, 3, 1000])
        logs = open_logs(directory, fs=fs, now_ms=clock, **settings)
    except StorageError:
        return seen
    try:
        log = logs.get_or_make("t", 0)
        seen = log.visible_end
        del stream[log.end :]
        while True:
            data = build_message(chosen.randbytes(chosen.randint(0, 120)))
            stream += data
            log.append(data, 1)
            if chosen.random() < 0.1:
                log.flush()
            if chosen.random() < 0.04:
                log.delete_expired()
            seen = log.visible_end
            if fs is not None and chosen.random() < 0.02:
                break
    except StorageError:
        return seen
    finally:
        logs.close()
    return log.visible_end


@pytest.mark.parametrize("seed", range(60))
def test_visible_messages_survive_a_power_cut(tmp_path, seed):
    check(tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1000 + soak.part_of(1500)))
def test_visible_messages_survive_many_power_cuts(tmp_path, seed):
    check(tmp_path, seed + soak.SEED)


def check(tmp_path, seed):
    chosen = random.Random(seed)
    clock = Clock()
    (tmp_path / "data").mkdir()
    fs = PowerCutFileSystem(tmp_path / "data", tmp_path / "after", seed)
    stream = bytearray()
    fs.cut_at = chosen.randint(1, 250)
    seen = live(tmp_path / "data", fs, chosen, clock, stream)
    if not fs.dead:
        seen = max(seen, live(tmp_path / "data", fs, chosen, clock, stream))
    if not fs.dead:
        fs.cut()
    fs.close_all()
    logs = open_logs(tmp_path / "after", now_ms=clock, file_bytes=400)
    try:
        log = logs.get("t", 0)
        if log is None:
            assert seen == 0
            return
        assert log.end == log.visible_end >= seen
        position = log.start
        while position < log.end:
            data = read(log, position, 10_000)
            assert data == stream[position : position + len(data)]
            assert whole_bytes(data) == len(data)
            position += len(data)
        log.append(build_message(b"and on"), 1)
        log.flush()
        assert read(log, position, 100) == build_message(b"and on")
    finally:
        logs.close()
