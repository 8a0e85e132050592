"""Checks of the arguments that users give to consumers.

Invariant: an argument without a meaning raises here. Later it would move the consumer elsewhere (a
negative offset is outside every log, so the reset policy would replace it) or stop its reading.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import SupportsIndex

from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry.topic_rules import check_topic_name


def check_offset(offset: int, instead: str) -> int:
    """Return an offset that a user gave, as an int.

    Args:
        offset: a whole number from 0.
        instead: what to call for the ends of a log.

    Raises:
        ClientError: it is not an offset.
    """
    if not isinstance(offset, int | SupportsIndex) or offset.__index__() < 0:
        raise ClientError(
            f"{offset!r} is no offset: give a whole number from 0; for the ends of a log {instead}"
        )
    return offset.__index__()


def check_topics(topics: Iterable[str]) -> frozenset[str]:
    """Return the names of topics.

    Raises:
        InvalidTopic: no topic can have one of the names.
    """
    names = list(topics)
    for name in names:
        check_topic_name(name)
    return frozenset(names)


def check_streams(topic_streams: Mapping[str, int], check_name: Callable[[str], object]) -> None:
    """Check how many streams are asked for of each topic.

    Args:
        topic_streams: topic -> number of streams.
        check_name: raises for a name that no topic can have.

    Raises:
        ConfigError: it is not such a mapping, or a number is below one.
    """
    if not isinstance(topic_streams, Mapping):
        raise ConfigError(f"streams {topic_streams!r}: give a dict of topic and number of streams")
    counts = topic_streams.values()
    if not counts or any(not isinstance(count, int) or count < 1 for count in counts):
        raise ConfigError(f"streams {dict(topic_streams)}: give at least one for each topic")
    for topic in topic_streams:
        check_name(topic)
