"""Topic filters; `test_java_regex.py` has their expressions."""

import pytest

from zkbroker.consumer import Blacklist, Whitelist
from zkbroker.errors import ConfigError


def test_filter_reads_comma_as_alternative_and_drops_blanks_and_quotes() -> None:
    whitelist = Whitelist(" 'white1, white2.*' ")
    assert whitelist.regex == "white1|white2.*"
    assert whitelist.matches("white1")
    assert whitelist.matches("white2-b")
    assert not whitelist.matches("white1-b")


def test_filter_matches_whole_name() -> None:
    assert Whitelist("g08-m.*").matches("g08-multi")
    assert not Whitelist("g08").matches("g08-multi")
    assert not Whitelist("multi").matches("g08-multi")


def test_blacklist_excludes_matching_topics() -> None:
    blacklist = Blacklist("black1")
    assert blacklist.matches("white1")
    assert blacklist.matches("black1-b")
    assert not blacklist.matches("black1")


def test_internal_topics_are_excluded_by_default() -> None:
    for topic_filter in (Whitelist(".*"), Blacklist("x")):
        assert not topic_filter.matches("__consumer_offsets")
        assert topic_filter.matches("__consumer_offsets", exclude_internal=False)


def test_error_names_comma_in_repetition() -> None:
    with pytest.raises(ConfigError, match=r"means '\|'"):
        Whitelist("a{1,2}")
