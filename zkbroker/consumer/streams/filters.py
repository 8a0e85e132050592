"""Topic filters: a whitelist or a blacklist, each one Java-style regular expression.

A filter means what it means to JVM consumers, since all members of a group must agree on it:
blanks are removed, every `,` becomes `|`, quotes around the expression are dropped, and the
expression must match the whole topic name.
"""

import abc

from zkbroker.consumer.streams.java_regex import compile_java_regex
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS


class TopicFilter(abc.ABC):
    """A set of topics by name, existing and future ones.

    Args:
        expression: a Java regular expression, or topic names separated by commas.

    Raises:
        ConfigError: it is not a regular expression that Java would take.
    """

    pattern_name = ""

    def __init__(self, expression: str) -> None:
        plain = expression.strip().replace(",", "|").replace(" ", "")
        self.regex = plain.lstrip("\"'").rstrip("\"'")
        self.compiled = compile_java_regex(self.regex)

    def matches(self, topic: str, *, exclude_internal: bool = True) -> bool:
        """Whether the filter lets a topic through.

        Args:
            topic: name of the topic.
            exclude_internal: leave out topics that brokers keep for themselves.
        """
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return self._allowed(self.compiled.fullmatch(topic) is not None)

    @abc.abstractmethod
    def _allowed(self, matched: bool) -> bool:
        """Whether the filter lets a topic through, given whether it matched."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.regex!r})"


class Whitelist(TopicFilter):
    """The topics that match."""

    pattern_name = "white_list"

    def _allowed(self, matched: bool) -> bool:
        return matched


class Blacklist(TopicFilter):
    """The topics that do not match."""

    pattern_name = "black_list"

    def _allowed(self, matched: bool) -> bool:
        return not matched


def make_filter(pattern_name: str, regex: str) -> TopicFilter:
    """Return the filter that some member has registered.

    Args:
        pattern_name: `white_list` or `black_list`.
        regex: the registered expression.

    Raises:
        ConfigError: the expression is invalid; JVM members cannot register such a one.
    """
    return (Blacklist if pattern_name == Blacklist.pattern_name else Whitelist)(regex)
