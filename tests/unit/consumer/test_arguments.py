"""Arguments of consumers are checked where they are given."""

import pytest

from zkbroker.consumer.arguments import check_offset, check_streams, check_topics
from zkbroker.errors import ClientError, ConfigError, InvalidTopic
from zkbroker.registry.topic_rules import check_topic_name


def test_offset_must_be_nonnegative_integer():
    assert check_offset(0, "") == 0
    assert check_offset(2**40, "") == 2**40
    for wrong in (-1, -2, 1.5, "3", None):
        with pytest.raises(ClientError, match="whole number from 0; for the ends of a log rewind"):
            check_offset(wrong, "rewind")


@pytest.mark.parametrize("name", [b"t", 5, "", "no/such", "th\u00e8me", "x" * 250])
def test_invalid_topic_name_is_refused(name):
    with pytest.raises(InvalidTopic):
        check_topics(["t", name])
    with pytest.raises(InvalidTopic):
        check_streams({"t": 1, name: 1}, check_topic_name)


def test_topic_names_are_returned_as_set():
    assert check_topics(name for name in ("a", "b", "a")) == {"a", "b"}


@pytest.mark.parametrize("streams", [["t"], "t", {"t": "1"}, {"t": 0}, {}])
def test_invalid_stream_counts_are_refused(streams):
    with pytest.raises(ConfigError, match=r"number of streams|at least one"):
        check_streams(streams, check_topic_name)
    check_streams({"t": 2}, check_topic_name)
