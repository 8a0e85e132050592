"""Remaining offsets until a mirror has caught up."""

from types import SimpleNamespace

import pytest

from tests.unit.mirror.test_config import make
from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.mirror.source_streams import CatchUp, SourceStreams


class Stream:
    idle = True

    def __init__(self, **positions):
        self.at = {("t", int(name[1:])): offset for name, offset in positions.items()}
        self.taken = dict(self.at)
        self.source = SimpleNamespace(processed=lambda: self.at, positions=lambda: self.taken)


@pytest.fixture
def caught_up():
    committed = {}

    def offsets(keys, time_ms, **options):
        ends = {("t", 0): 100, ("t", 1): 50}
        starts = {("t", 0): 10, ("t", 1): 0}
        assert set(keys) == set(ends)  # topic `u` is not queried
        return ends if time_ms == LATEST_TIME else starts

    def make_ends(*streams):
        config = make(whitelist="t")
        source = SimpleNamespace(
            config=config.sources[0],
            cluster=SimpleNamespace(topics=lambda: ["t", "u"]),
            partitions=lambda topic: range(2),
            offsets=offsets,
            committed=lambda: dict(committed),
        )
        routes = SimpleNamespace(skips=lambda topic: False)
        side = SourceStreams(source, routes, list(streams))
        return CatchUp([side], config)

    return make_ends, committed


def test_remaining_offsets_are_counted_from_committed_offset(caught_up):
    make_ends, committed = caught_up
    committed[("t", 0)] = 40
    stream = Stream(p0=40, p1=0)
    ends = make_ends(stream)
    assert (ends.total, ends.left()) == (60 + 50, 110)
    stream.at = {("t", 0): 100, ("t", 1): 49}
    assert ends.left() == 1
    stream.at = {("t", 0): 120, ("t", 1): 50}
    assert ends.left() == 0


def test_messages_in_flight_are_not_caught_up(caught_up):
    make_ends, _ = caught_up
    stream = Stream(p0=100, p1=50)
    stream.idle = False
    assert make_ends(stream).left() == 1


def test_chunk_between_poll_and_send_is_not_caught_up(caught_up):
    make_ends, _ = caught_up
    stream = Stream(p0=90, p1=50)
    stream.taken[("t", 0)] = 100
    assert make_ends(stream).left() == 10


def test_commits_of_other_mirrors_count_as_arrived(caught_up):
    make_ends, committed = caught_up
    stream = Stream(p0=100)
    ends = make_ends(stream)
    assert ends.left() == 50
    committed[("t", 1)] = 50
    assert ends.left() == 0
    stream.idle = False
    assert ends.left() == 1
