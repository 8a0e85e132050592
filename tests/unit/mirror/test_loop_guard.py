"""Loop prevention by path headers and topic prefixes."""

import pytest

from zkbroker.mirror.loop_guard import PATH_HEADER, PathMarker, would_loop

EAST_TO_WEST = PathMarker("east", "west")


def record(*headers):
    return (b"k", b"v", 5, headers)


def test_marker_adds_source_name_to_headers():
    (plain, own) = EAST_TO_WEST.marked([record(), record(("a", b"1"), ("a", None))])
    assert plain == (b"k", b"v", 5, ((PATH_HEADER, b"east"),))
    assert own[3] == (("a", b"1"), ("a", None), (PATH_HEADER, b"east"))


def test_message_is_not_sent_to_cluster_in_its_path():
    here = record((PATH_HEADER, b"west"))
    ring = record((PATH_HEADER, b"west,south"))
    other = record((PATH_HEADER, b"south"))
    assert EAST_TO_WEST.marked([here, ring, other]) == [record((PATH_HEADER, b"south,east"))]


@pytest.mark.parametrize(
    ("topic", "prefix", "target", "loops"),
    [
        ("orders", "", "west", False),
        ("orders", "east.", "west", False),
        ("west.orders", "east.", "west", True),
        ("west.orders", "east.", "", False),
        ("east.orders", "east.", "", True),
        ("west.east.orders", "east.", "", True),
        ("northeast.orders", "east.", "", False),
        ("west.orders", "", "west", False),
    ],
)
def test_topics_of_prefix_mirrors_would_loop(topic, prefix, target, loops):
    assert would_loop(topic, prefix, target) is loops
