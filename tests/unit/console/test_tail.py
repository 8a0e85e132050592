"""The tail shows every message that its positions pass, or counts it as skipped."""

import json
from types import SimpleNamespace

import pytest

from zkbroker.console import tail
from zkbroker.console.partition_reader import MAX_ENTRY_BYTES
from zkbroker.console.tail import Tail
from zkbroker.errors import NetworkError
from zkbroker.records import encode_message_set

MOST_ASKED = 20
"""After so many fetches the tail ends, so that a test ends."""


class Leaders:
    """Leaders with the same number as their partition; answers are bytes or errors."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def send(self, connection, wanted, settings):
        self.asked.append(wanted)
        return wanted

    def fetched(self, pending, settings):
        for key, want in pending.items():
            answer = self.answers[key[1]](want)
            if isinstance(answer, Exception):
                raise answer
            yield key, answer


def part(data, high_watermark):
    return SimpleNamespace(records=data, high_watermark=high_watermark, error_code=0)


@pytest.fixture
def follow(monkeypatch):
    """Begin to follow leaders from offset 0, and return the events, without the beginning."""

    def begin(answers):
        leaders = Leaders(answers)
        monkeypatch.setattr(
            tail, "resolve_offsets", lambda cluster, wanted: dict.fromkeys(wanted, 0)
        )
        monkeypatch.setattr(tail, "send_fetch", leaders.send)
        monkeypatch.setattr(tail, "fetched", leaders.fetched)
        cluster = SimpleNamespace(
            leader=lambda topic, partition: partition, connection=lambda *_: None
        )
        runtime = SimpleNamespace(sleep=lambda seconds: None)
        following = Tail(
            cluster, "t", sorted(answers), runtime, lambda: len(leaders.asked) > MOST_ASKED
        )
        events = following.events()
        next(events)
        return events, leaders

    return begin


def read(text):
    name, data = text.strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def test_messages_of_a_leader_are_shown_although_another_one_fails(follow):
    events, leaders = follow(
        {
            0: lambda want: part(encode_message_set([(None, b"one", 1, ())]), 1),
            1: lambda want: NetworkError("broker 1 is away"),
        }
    )
    name, message = read(next(events))
    assert (name, message["partition"], message["offset"]) == ("message", 0, 0)
    assert read(next(events)) == ("error", {"error": "broker 1 is away"})
    leaders.answers[0] = lambda want: part(b"", want.offset)
    next(events)
    assert leaders.asked[-2][("t", 0)].offset == 1


def test_entry_above_the_limit_of_the_page_is_skipped(follow):
    # Leaders before 0.10.1 cut it off at the size of the fetch.
    huge = (0).to_bytes(8, "big") + (2 * MAX_ENTRY_BYTES).to_bytes(4, "big") + bytes(4) + b"\2"
    head = huge.ljust(64, b"\0")
    events, leaders = follow({0: lambda want: part(head.ljust(want.max_bytes, b"\0"), 1)})
    assert read(next(events)) == ("skipped", {"n": 1})
    sizes = [wanted["t", 0].max_bytes for wanted in leaders.asked]
    assert (sizes[-1], sizes.count(MAX_ENTRY_BYTES)) == (MAX_ENTRY_BYTES, 1)
    leaders.answers[0] = lambda want: part(
        encode_message_set([(None, b"next", 1, ())], base_offset=1), 2
    )
    name, message = read(next(events))
    assert (name, message["offset"]) == ("message", 1)
