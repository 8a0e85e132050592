r"""Java regular expressions (`java.util.regex`), translated to Python's.

Translated differences:

    [a-z&&[^bc]]  [a-d[m-p]]      intersections and unions of character classes
    \p{Alpha} \P{Lu} \p{IsDigit}  classes by name
    \Q...\E                       quoted text
    (?<name>...) \k<name>         named groups
    (?i) anywhere                 flags up to the end of the enclosing group
    \z \Z \h \H \R \x{41} \0101 \e  escapes
    {1|3}                         an illegal repetition, where Python reads plain text

Rule: names of topics are ASCII, so every character class is reduced to a set of ASCII characters
(a negated one also takes everything beyond ASCII); `\d`, `\w`, `\s` and `\b` are ASCII in Java.
"""

import re
import string
import sys

from zkbroker.errors import ConfigError

_ASCII = frozenset(map(chr, range(128)))
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SPACE = frozenset(" \t\n\x0b\f\r")
_BLANK = frozenset(" \t")
_SHORT = {
    "d": frozenset(string.digits),
    "w": _WORD,
    "s": _SPACE,
    "h": _BLANK,
    "v": frozenset("\n\x0b\f\r"),
}
_UPPER = frozenset(string.ascii_uppercase)
_LOWER = frozenset(string.ascii_lowercase)
_PUNCT = frozenset(string.punctuation)
_CONTROL = frozenset(map(chr, [*range(32), 127]))
_NAMED = {
    "lower": _LOWER,
    "upper": _UPPER,
    "ascii": _ASCII,
    "alpha": _LOWER | _UPPER,
    "digit": _SHORT["d"],
    "alnum": _LOWER | _UPPER | _SHORT["d"],
    "punct": _PUNCT,
    "graph": _LOWER | _UPPER | _SHORT["d"] | _PUNCT,
    "print": _LOWER | _UPPER | _SHORT["d"] | _PUNCT | {" "},
    "blank": _BLANK,
    "cntrl": _CONTROL,
    "xdigit": frozenset(string.hexdigits),
    "space": _SPACE,
    "l": _LOWER | _UPPER,
    "lu": _UPPER,
    "ll": _LOWER,
    "n": _SHORT["d"],
    "nd": _SHORT["d"],
    "p": _PUNCT - frozenset("$+<=>^`|~"),
    "s": frozenset("$+<=>^`|~"),
    "z": frozenset(" "),
    "c": _CONTROL,
    "latin": _LOWER | _UPPER,
    "alphabetic": _LOWER | _UPPER,
    "letter": _LOWER | _UPPER,
    "uppercase": _UPPER,
    "lowercase": _LOWER,
    "white_space": _SPACE,
    "whitespace": _SPACE,
    "letterordigit": _LOWER | _UPPER | _SHORT["d"],
}
_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_REPETITION = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\?([idmsuxU]*)(-[idmsuxU]+)?([:)])")
_GROUP_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_UNSUPPORTED_GROUP = ("?P", "?#", "?(")
_SHOWN = 100


def compile_java_regex(expression: str) -> re.Pattern[str]:
    """Compile a Java regular expression; use `fullmatch` for Java's `matches`.

    Raises:
        ConfigError: Java would not take it, or Python cannot (a look-behind of variable length,
            hundreds of groups or classes inside each other).
    """
    try:
        return re.compile(_Translator(expression).translate(), re.ASCII)
    except RecursionError:
        # Shown in part: it is as long as it is deep.
        shown = f"{expression[:_SHOWN]!r}{'…' if len(expression) > _SHOWN else ''}"
        raise ConfigError(
            f"topic filter {shown}: groups, flags or character classes are nested too deep; nest "
            "fewer of them, or name the topics one by one: a|b|c"
        ) from None
    except (re.error, OverflowError) as error:
        raise ConfigError(f"topic filter {expression!r} cannot be used: {error}") from error


_Class = tuple[frozenset[str], bool]
"""The ASCII members of a character class, and whether all beyond ASCII is in it."""


def _maybe_negated(members: _Class, negated: bool) -> _Class:
    return (_ASCII - members[0], not members[1]) if negated else members


def _intersect(left: _Class | None, right: _Class) -> _Class:
    if left is None:
        return right
    # `[a-z&&]`: an empty right side does not change the left one, as in Java.
    if not right[0] and not right[1]:
        return left
    return left[0] & right[0], left[1] and right[1]


def _python_class(members: frozenset[str], beyond: bool) -> str:
    if len(members) == 1 and not beyond:
        return re.escape(min(members))
    listed = "".join(
        f"\\x{ord(member):02x}" for member in sorted(_ASCII - members if beyond else members)
    )
    if beyond:
        return f"[^{listed}]" if listed else r"[\s\S]"
    return f"[{listed}]" if listed else "(?!)"


def _python_flags(on: str, off: str) -> str:
    """Open a group with the flags that Python knows; d, u and U do not change ASCII names."""
    enabled = "".join(sorted({flag for flag in on if flag in "imsx"} - set(off)))
    disabled = "".join(sorted({flag for flag in off if flag in "imsx"}))
    return f"(?{enabled}{'-' + disabled if disabled else ''}:"


class _Translator:
    """One pass over the expression; `_at` is the next character to read."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._at = 0
        self._out: list[str] = []
        # For each open group, the flag groups opened inside it by a bare (?i).
        self._flags: list[list[str]] = [[]]

    def translate(self) -> str:
        while self._at < len(self._text):
            self._one()
        if len(self._flags) > 1:
            raise self._error("unclosed group")
        self._out.append(")" * len(self._flags[0]))
        return "".join(self._out)

    def _one(self) -> None:
        character = self._text[self._at]
        if character == "\\":
            self._out.append(self._escape_outside())
        elif character == "[":
            self._at += 1
            self._out.append(_python_class(*self._class_body()))
        elif character == "(":
            self._open_group()
        elif character == ")":
            if len(self._flags) == 1:
                raise self._error("unmatched )")
            self._out.append(")" * (len(self._flags.pop()) + 1))
            self._at += 1
        elif character == "|":
            # A bare flag extends into the next alternative: close its group and open it again.
            inside = self._flags[-1]
            self._out.append(")" * len(inside) + "|" + "".join(inside))
            self._at += 1
        elif character == "{":
            repetition = _REPETITION.match(self._text, self._at)
            if repetition is None:
                raise self._error("illegal repetition (a ',' in a filter means '|')")
            self._out.append(repetition.group())
            self._at = repetition.end()
        else:
            # Python takes a lone closing bracket or brace as Java does.
            self._out.append(character)
            self._at += 1

    def _open_group(self) -> None:
        start = self._at + 1
        flags = _FLAGS.match(self._text, start)
        if flags is not None:
            opened = _python_flags(flags.group(1), (flags.group(2) or "")[1:])
            self._out.append(opened)
            self._at = flags.end()
            if flags.group(3) == ":":
                self._flags.append([])
            else:
                self._flags[-1].append(opened)
            return
        if self._text.startswith(_UNSUPPORTED_GROUP, start):
            raise self._error("unknown kind of group")
        self._flags.append([])
        if self._text.startswith("?<", start) and self._text[start + 2 : start + 3] not in "=!":
            name = _GROUP_NAME.match(self._text, start + 2)
            if name is None or self._text[name.end() : name.end() + 1] != ">":
                raise self._error("bad name of a group")
            self._out.append(f"(?P<{name.group()}>")
            self._at = name.end() + 1
            return
        for opening in ("?:", "?=", "?!", "?>", "?<=", "?<!", ""):
            if self._text.startswith(opening, start):
                self._out.append("(" + opening)
                self._at = start + len(opening)
                return

    def _escape_outside(self) -> str:
        text, at = self._text, self._at
        following = text[at + 1 : at + 2]
        if following == "Q":
            return re.escape(self._quoted())
        if following == "k":
            end = text.find(">", at)
            if text[at + 2 : at + 3] != "<" or end < 0:
                raise self._error("bad reference to a named group")
            self._at = end + 1
            return f"(?P={text[at + 3 : end]})"
        if following in ("A", "b", "B") or (following in "123456789" and following):
            self._at += 2
            return "\\" + following
        if following in ("z", "Z", "R"):
            self._at += 2
            return {"z": r"\Z", "Z": r"(?=\n?\Z)", "R": r"(?:\r\n|[\n-\r])"}[following]
        return _python_class(*self._escape_members())

    def _quoted(self) -> str:
        end = self._text.find(r"\E", self._at)
        end = len(self._text) if end < 0 else end
        quoted = self._text[self._at + 2 : end]
        self._at = min(end + 2, len(self._text))
        return quoted

    def _escape_members(self) -> _Class:
        r"""Read an escape that stands for one character or for a class."""
        text = self._text
        kind = text[self._at + 1 : self._at + 2]
        if not kind:
            raise self._error("a lone backslash at the end")
        self._at += 2
        if kind.lower() in _SHORT:
            return _maybe_negated((_SHORT[kind.lower()], False), kind.isupper())
        if kind in "pP":
            return _maybe_negated((self._named_class(), False), kind == "P")
        if kind in _CONTROL_ESCAPES:
            return frozenset(_CONTROL_ESCAPES[kind]), False
        if kind == "c":
            self._at += 1
            return frozenset(chr(ord(text[self._at - 1 : self._at] or "@") ^ 64)), False
        number = {
            "x": r"\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2})",
            "u": r"([0-9a-fA-F]{4})",
            "0": r"([0-3]?[0-7]{1,2})",
        }.get(kind)
        if number is not None:
            match = re.compile(number).match(text, self._at)
            if match is None:
                raise self._error(f"bad escape \\{kind}")
            self._at = match.end()
            digits = next(group for group in match.groups() if group is not None)
            code = int(digits, 8 if kind == "0" else 16)
            if code > sys.maxunicode:
                raise self._error(f"bad escape \\{kind}")
            return frozenset(chr(code)), False
        if kind.isascii() and kind.isalnum():
            raise self._error(f"bad escape \\{kind}")
        return frozenset(kind), False

    def _named_class(self) -> frozenset[str]:
        text = self._text
        if text[self._at : self._at + 1] == "{":
            end = text.find("}", self._at)
            name, self._at = text[self._at + 1 : end], end + 1
            if end < 0:
                raise self._error("unclosed name of a character class")
        else:
            name, self._at = text[self._at : self._at + 1], self._at + 1
        key = name.rpartition("=")[2].lower()
        for prefix in ("", "is", "java"):
            if key.startswith(prefix) and key[len(prefix) :] in _NAMED:
                return _NAMED[key[len(prefix) :]]
        raise self._error(f"unknown character class {name!r}")

    def _class_body(self) -> _Class:
        """Read a class after its opening bracket."""
        text = self._text
        negated = text[self._at : self._at + 1] == "^"
        self._at += negated
        result: _Class | None = None
        members: frozenset[str] = frozenset()
        beyond = False
        first = True
        while True:
            if self._at >= len(text):
                raise self._error("unclosed character class")
            character = text[self._at]
            if character == "]" and not first:
                self._at += 1
                break
            if text.startswith("&&", self._at):
                self._at += 2
                if not first:
                    # With nothing to its left, `&&` means nothing.
                    result = _intersect(result, (members, beyond))
                    members, beyond = frozenset(), False
            elif character == "[":
                self._at += 1
                inner, inner_beyond = self._class_body()
                members, beyond = members | inner, beyond or inner_beyond
            else:
                more, more_beyond = self._class_item()
                members, beyond = members | more, beyond or more_beyond
            first = False
        return _maybe_negated(_intersect(result, (members, beyond)), negated)

    def _class_item(self) -> _Class:
        if self._text.startswith(r"\Q", self._at):
            return frozenset(self._quoted()), False
        members, beyond = self._class_character()
        following = self._text[self._at : self._at + 2]
        if len(members) == 1 and following[:1] == "-" and following[1:] not in ("", "]", "["):
            self._at += 1
            upper, _ = self._class_character()
            low, high = ord(min(members)), ord(min(upper))
            if len(upper) != 1 or low > high:
                raise self._error("bad range of characters")
            return frozenset(map(chr, range(low, min(high, 127) + 1))), False
        return members, beyond

    def _class_character(self) -> _Class:
        if self._text[self._at] == "\\":
            return self._escape_members()
        self._at += 1
        return frozenset(self._text[self._at - 1]), False

    def _error(self, what: str) -> ConfigError:
        return ConfigError(f"topic filter {self._text!r}: {what} near character {self._at + 1}")
