"""Which stream a partition feeds: by topic and thread, or by thread alone with a filter."""

from zkbroker.consumer.streams.streams import Streams
from zkbroker.runtime import get_runtime


def streams() -> Streams:
    return Streams(
        get_runtime("threads"), timeout_ms=-1, on_room=lambda: None, lease_valid=lambda: True
    )


def test_each_thread_of_topic_has_own_stream() -> None:
    every = streams()
    one, two = every.make("t", 2, None, None)
    (other,) = every.make("u", 1, None, None)
    assert every.of("t", 0) is one
    assert every.of("t", 1) is two
    assert every.of("u", 0) is other
    assert list(every) == [one, two, other]


def test_topics_of_filter_share_streams() -> None:
    every = streams()
    made = every.make(None, 2, None, None)
    assert [every.of(topic, thread) for topic in ("a", "b") for thread in (0, 1)] == made * 2
