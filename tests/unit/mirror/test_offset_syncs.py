"""Translation of group offsets."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from zkbroker.consumer import ConsumerTimeout
from zkbroker.errors import RequestTimedOut
from zkbroker.mirror import offset_syncs
from zkbroker.mirror.offset_syncs import Sync, read_syncs, sync_message, translate
from zkbroker.mirror.tracker import Place

KEY = ("t", 3)


def at(offset: int, *syncs: tuple[int, int]) -> int | None:
    found = translate({KEY: offset}, {KEY: [Sync(*each, "t", 3) for each in syncs]})[KEY]
    return None if found is None else found.offset


def test_offset_between_evenly_spaced_syncs_is_interpolated():
    assert at(130, (200, 1200), (100, 1100)) == 1130
    assert at(100, (100, 1100), (200, 1200)) == 1100


def test_earlier_sync_is_used_elsewhere():
    assert at(130, (100, 1100), (200, 1190)) == 1100
    assert at(999, (100, 1100), (200, 1200)) == 1200


def test_offset_before_first_sync_is_unknown():
    assert at(99, (100, 1100)) is None
    assert at(5) is None


def test_offset_mirrored_twice_translates_to_first_copy():
    assert at(100, (100, 1300), (100, 1100), (200, 1400)) == 1100


def test_sync_message_has_partition_key():
    message = sync_message("syncs", "east", KEY, 7, Place("east.t", 3, 70))
    assert json.loads(message.key) == {"source": "east", "topic": "t", "partition": 3}
    assert json.loads(message.message)["target_offset"] == 70
    assert message.partition == 0


def test_invalid_sync_is_skipped(monkeypatch, caplog):
    good = sync_message("syncs", "east", KEY, 7, Place("t", 3, 70))
    stored = [
        (good.key, value)
        for value in (b"", b"{}", b"[1]", b'{"offset": 1, "target_offset": 2}', good.message)
    ]
    stored += [(None, b"{}"), (b"\xff", None), (b"{}", b"{}")]

    messages = [
        SimpleNamespace(key=key, value=value, offset=at) for at, (key, value) in enumerate(stored)
    ]
    monkeypatch.setattr(offset_syncs, "resolve_or_end", lambda *_, **__: {})
    monkeypatch.setattr(offset_syncs, "AssignedConsumer", lambda *_, **__: nullcontext(messages))
    cluster = SimpleNamespace(partitions=lambda topic: [SimpleNamespace(partition=0)])
    assert read_syncs(cluster, "syncs", "east") == {KEY: [Sync(7, 70, "t", 3)]}
    assert caplog.text.count("not a sync, skipped") == 4


def test_wait_for_syncs_is_bounded(monkeypatch):
    def silent(cluster, starts, *, stop, timeout_ms=-1):
        assert timeout_ms >= 0, "it waits for ever"
        return nullcontext(messages())

    def messages():
        raise ConsumerTimeout("no message")
        yield

    monkeypatch.setattr(offset_syncs, "resolve_or_end", lambda *_, **__: {})
    monkeypatch.setattr(offset_syncs, "AssignedConsumer", silent)
    cluster = SimpleNamespace(partitions=lambda topic: [SimpleNamespace(partition=0)])
    with pytest.raises(RequestTimedOut, match="no message of syncs of the target came for 30 s"):
        read_syncs(cluster, "syncs", "east")
