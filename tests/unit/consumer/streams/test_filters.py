"""Topic filters and the Java regular expressions in them."""

import pytest

from zkbroker.consumer import Blacklist, Whitelist
from zkbroker.consumer.streams.java_regex import compile_java_regex
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


@pytest.mark.parametrize(
    ("expression", "matching", "failing"),
    [
        ("[a-z&&[^bc]]+", ["ad", "z"], ["ab", "c"]),
        ("[a-d[m-p]]+", ["amp"], ["e"]),
        ("[a-z&&[def]&&[ef]]", ["e"], ["d"]),
        (r"[&&\w]+", ["ab_1"], ["a-b"]),
        ("[^a-c[x]]", ["d", "é"], ["a", "x"]),
        ("[]a]+", ["]a"], ["b"]),
        ("[a-]+", ["a-"], ["b"]),
        (r"[\w.-]+", ["a.b-c_9"], ["a b", "é"]),
        (r"[^\d]+", ["abc"], ["a1"]),
        (r"\p{Alpha}+\d", ["ab1"], ["1ab"]),
        (r"\p{L}\p{Lu}\pL", ["aBc"], ["abc"]),
        (r"\P{Upper}+", ["ab"], ["aB"]),
        (r"[\p{Punct}&&[^-]]+", ["._"], ["-"]),
        (r"\p{javaLowerCase}\p{IsAlphabetic}", ["aB"], ["Ba"]),
        (r"\Qa.b|c\E.*", ["a.b|cd"], ["axb", "c"]),
        (r"a\Q", ["a"], ["aQ"]),
        (r"[\Q&&\E]+", ["&"], ["a"]),
        ("(?i)ab|CD", ["AB", "cd"], ["x"]),
        ("a(?i)b|c", ["aB", "C"], ["AB", "A"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("(?<x>a+)-\\k<x>", ["aa-aa"], ["aa-a"]),
        (r"(a|b)\1", ["aa", "bb"], ["ab"]),
        ("a++b", ["aab"], ["b"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("(?!test).*", ["prod"], ["test-a"]),
        (".*(?<!-tmp)", ["a"], ["a-tmp"]),
        ("a{2}b{1,}", ["aab", "aabb"], ["ab"]),
        (r"\x41\u0042\0103\x{44}", ["ABCD"], ["abcd"]),
        (r"^a.*z$", ["abz"], ["ab"]),
        (r"a\z|b\Z", ["a", "b"], ["c"]),
        (r"a\.b\-c", ["a.b-c"], ["axb-c"]),
        ("", [""], ["a"]),
    ],
)
def test_filter_uses_java_syntax(expression: str, matching: list[str], failing: list[str]) -> None:
    compiled = compile_java_regex(expression)
    assert [name for name in matching if compiled.fullmatch(name)] == matching
    assert [name for name in failing if compiled.fullmatch(name)] == []


WRONG = r"""(a  a)  [a  [a&&  \y  (?Px)  (?P<n>a)  (?#c)  *a  [b-a]  \  a{x}  {  \p{Nonsense}
\p{Alpha  \xg  \k<  (?<1>a)  a{1,2}{,}"""


@pytest.mark.parametrize("expression", WRONG.split())
def test_expression_refused_by_java_is_refused(expression: str) -> None:
    with pytest.raises(ConfigError, match="topic filter"):
        compile_java_regex(expression)


def test_error_names_comma_in_repetition() -> None:
    with pytest.raises(ConfigError, match=r"means '\|'"):
        Whitelist("a{1,2}")
