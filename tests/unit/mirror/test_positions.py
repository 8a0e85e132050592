"""Positions in the target: messages, and reads after open transactions."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from zkbroker.consumer import ConsumerTimeout
from zkbroker.errors import ConfigError, RequestTimedOut
from zkbroker.mirror import positions
from zkbroker.mirror.positions import Positions
from zkbroker.runtime import get_runtime


class Log:
    """The positions topic: messages, and its last stable offset."""

    def __init__(self, monkeypatch):
        self.messages = []
        self.stable = 0
        self.readable = 1000
        self.started = []
        self.stable_reads = 0
        monkeypatch.setattr(positions, "resolve_or_end", self.resolve)
        monkeypatch.setattr(positions, "AssignedConsumer", self.consumer)

    def resolve(self, cluster, times, *, read_committed=False, timeout_s=0):
        ((key, when),) = times.items()
        if when == positions.EARLIEST_TIME:
            return {key: 0}
        self.stable_reads += read_committed
        if self.stable_reads > 2:
            self.stable = len(self.messages)
        return {key: self.stable if read_committed else len(self.messages)}

    def consumer(self, cluster, starts, *, stop, settings, runtime, timeout_ms=-1):
        assert settings.read_committed
        assert timeout_ms >= 0, "it waits for ever"
        ((_, start),) = starts.items()
        ((_, end),) = stop.items()
        self.started.append(start)
        return nullcontext(self.read(start, end))

    def read(self, start, end):
        for at, m in enumerate(self.messages[start:end], start):
            if at >= self.readable:
                raise ConsumerTimeout("no message")
            yield SimpleNamespace(key=m.key, value=m.message, offset=at)


@pytest.fixture
def log(monkeypatch):
    return Log(monkeypatch)


def make(source="east"):
    return Positions(None, "mirror-positions", source, get_runtime("threads"))


def test_latest_own_position_of_each_partition_counts(log):
    mine, theirs = make(), make("west")
    log.messages = [
        mine.message(("t", 0), 3),
        theirs.message(("t", 0), 99),
        mine.message(("t", 1), 4),
        mine.message(("t", 0), 7),
    ]
    log.stable = 4
    assert mine.read(1) == {("t", 0): 7, ("t", 1): 4}
    log.messages.append(mine.message(("t", 1), 8))
    log.stable = 5
    assert mine.read(1) == {("t", 0): 7, ("t", 1): 8}
    assert log.started == [0, 4]


def test_read_waits_for_open_transactions(log):
    mine = make()
    log.messages = [mine.message(("t", 0), 3)]
    assert mine.read(5) == {("t", 0): 3}
    assert log.stable_reads == 3


def test_wait_for_open_transactions_is_bounded(log):
    mine = make()
    log.messages = [mine.message(("t", 0), 3)]
    log.stable_reads = -(10**9)
    with pytest.raises(RequestTimedOut, match=r"has been open for 0\.1 s"):
        mine.read(0.1)


def test_wait_for_messages_is_bounded_and_the_next_read_begins_again(log):
    mine = make()
    log.messages = [mine.message(("t", 0), 3), mine.message(("t", 0), 4)]
    log.stable, log.readable = 2, 1
    with pytest.raises(RequestTimedOut, match=r"no message of mirror-positions .* for 30 s"):
        mine.read(5)
    log.readable = 2
    assert mine.read(5) == {("t", 0): 4}
    assert log.started == [0, 0]


def test_tombstone_removes_position(log):
    mine = make()
    log.messages = [mine.message(("t", 0), 3)]
    gone = SimpleNamespace(key=log.messages[0].key, message=None)
    log.messages.append(gone)
    log.stable = 2
    assert mine.read(1) == {}


def raw_message(key, value):
    return SimpleNamespace(key=key, message=value)


def test_foreign_records_are_ignored(log):
    mine = make()
    keys = [None, b"", b"[]", b'{"source": "east"}']
    log.messages = [mine.message(("t", 0), 3), *(raw_message(key, b"{}") for key in keys)]
    log.stable = len(log.messages)
    assert mine.read(1) == {("t", 0): 3}


@pytest.mark.parametrize("value", [b"", b"\xff", b"{}", b'{"offset": -1}', b'{"offset": 1e999}'])
def test_error_names_unreadable_position(log, value):
    mine = make()
    good = mine.message(("t", 0), 3)
    log.messages = [good, raw_message(good.key, value)]
    log.stable = 2
    with pytest.raises(ConfigError, match=r"offset 1 of mirror-positions .* position of t-0 of"):
        mine.read(1)
    log.messages.append(mine.message(("t", 0), 4))
    log.stable = 3
    assert mine.read(1) == {("t", 0): 4}
