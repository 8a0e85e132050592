"""Java's regular expressions keep their meaning."""

import pytest

from zkbroker.consumer.streams.java_regex import compile_java_regex
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("expression", "matching", "others"),
    [
        ("[a-z&&[^bc]]+", ["a", "dxz"], ["b", "ac"]),
        ("[a-d[m-p]]", ["a", "d", "n"], ["e", "q"]),
        ("[^a-c]", ["d", "1", "é"], ["a"]),
        ("[a-z&&]", ["q"], ["1"]),
        (r"\p{Alpha}+\p{Digit}", ["ab1"], ["a1b"]),
        (r"\P{Lu}+", ["abc.1"], ["aB"]),
        (r"\p{IsAlphabetic}\pL\p{javaLowerCase}", ["aBc"], ["aB1"]),
        (r"\Qa.b\E.", ["a.bX"], ["aXbX"]),
        (r"[\Q]^\E]", ["]", "^"], ["a"]),
        (r"(?<name>ab|c)\k<name>", ["abab", "cc"], ["abc"]),
        ("a(?i)b", ["ab", "aB"], ["Ab"]),
        ("a(?i)b|c", ["aB", "C"], ["A"]),
        ("((?i)a)b", ["Ab", "ab"], ["AB"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("(?i-i:a)", ["a"], ["A"]),
        (r"\x61\x{62}\u0063\0144", ["abcd"], ["abc"]),
        (r"a\z", ["a"], ["a\n"]),
        (r"a\hb", ["a b", "a\tb"], ["a\nb"]),
        ("a{2}b{1,}c{0,1}", ["aab", "aabbc"], ["ab", "aabcc"]),
        (r"\d\w\s", ["1_ "], ["١a ", "1é "]),
        ("a(?=b).", ["ab"], ["ac"]),
        (r"\.", ["."], ["a"]),
        ("[a-z&&[def]&&[ef]]", ["e"], ["d"]),
        (r"[&&\w]+", ["ab_1"], ["a-b"]),
        ("[^a-c[x]]", ["d", "é"], ["a", "x"]),
        ("[]a]+", ["]a"], ["b"]),
        ("[a-]+", ["a-"], ["b"]),
        (r"[\w.-]+", ["a.b-c_9"], ["a b", "é"]),
        (r"[^\d]+", ["abc"], ["a1"]),
        (r"[\p{Punct}&&[^-]]+", ["._"], ["-"]),
        (r"a\Q", ["a"], ["aQ"]),
        (r"[\Q&&\E]+", ["&"], ["a"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        (r"(a|b)\1", ["aa", "bb"], ["ab"]),
        ("a++b", ["aab"], ["b"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("(?!test).*", ["prod"], ["test-a"]),
        (".*(?<!-tmp)", ["a"], ["a-tmp"]),
        (r"a\z|b\Z", ["a", "b"], ["c"]),
        ("", [""], ["a"]),
    ],
)
def test_java_expression_matches(expression: str, matching: list[str], others: list[str]) -> None:
    pattern = compile_java_regex(expression)
    assert [name for name in matching if not pattern.fullmatch(name)] == []
    assert [name for name in others if pattern.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(a", "unclosed group"),
        ("a)", r"unmatched \)"),
        ("[a", "unclosed character class"),
        ("[z-a]", "bad range"),
        ("{1|3}", "illegal repetition"),
        ("a{,3}", "illegal repetition"),
        (r"\p{Nothing}", "unknown character class 'Nothing'"),
        (r"\p{Alpha", "unclosed name"),
        (r"\y", "bad escape"),
        (r"\xz", "bad escape"),
        (r"\x{110000}", "bad escape"),
        ("a\\", "lone backslash"),
        ("(?P<a>b)", "unknown kind of group"),
        ("(?<1a>b)", "bad name of a group"),
        (r"\k<a", "bad reference"),
        ("(?<=a+)b", "cannot be used"),
        ("*a", "cannot be used"),
        ("[a&&", "unclosed character class"),
        ("(?#c)", "unknown kind of group"),
    ],
)
def test_expression_refused_by_java_is_refused_with_reason(expression: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        compile_java_regex(expression)
    assert repr(expression) in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    ["(" * 20_000 + "a" + ")" * 20_000, "[a" * 20_000 + "]" * 20_000, "(?i)" * 20_000 + "a"],
)
def test_expression_that_is_nested_too_deep_is_refused_with_advice(expression: str) -> None:
    with pytest.raises(ConfigError, match=r"nested too deep.*nest fewer") as refused:
        compile_java_regex(expression)
    assert len(str(refused.value)) < 300
