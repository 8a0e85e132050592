"""Lines and files of JAAS, in which Kafka and ZooKeeper keep logins and users.

    line   module flag name=value ... ;
    file   section { line line ... }; section { ... };

A value is a word or a text in double quotes with Java's escapes; `//` and `/* */` are comments. The
rules are those of Java's configuration files and of the property `sasl.jaas.config`.

Invariant: an error message says what was expected and where, and never shows a value: values are
passwords.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zkbroker.errors import ConfigError

FLAGS = ("required", "requisite", "sufficient", "optional")

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r'|"(?P<text>(?:[^"\\\n]|\\[^\n])*)"'
    r"|(?P<mark>[={};])"
    r"|(?P<word>[\w.$\-]+)",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasLine:
    """One login module with its options.

    Args:
        module: class name of the login module.
        options: name → value; not shown, for values are passwords.
    """

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def kind(self) -> str:
        """The class name without its package, as `PlainLoginModule`."""
        return self.module.rpartition(".")[2]


class _Token(NamedTuple):
    kind: str  # text, mark, word or end
    value: str
    line: int


def parse_jaas_line(text: str, key: str) -> JaasLine:
    """Parse the value of a property such as `sasl.jaas.config`: exactly one login module.

    Raises:
        ConfigError: it is not one line of JAAS.
    """
    parser = _Parser(text, key)
    line = parser.line()
    if parser.next.kind != "end":
        raise parser.error("nothing after the ';': one login module for each mechanism")
    return line


def parse_jaas_file(text: str, name: str) -> dict[str, tuple[JaasLine, ...]]:
    """Parse the text of a JAAS file: section → its login modules, in order.

    Raises:
        ConfigError: it is not a JAAS file.
    """
    parser = _Parser(text, name)
    sections: dict[str, tuple[JaasLine, ...]] = {}
    while parser.next.kind != "end":
        section = parser.take("word", "the name of a section, such as KafkaServer")
        if section in sections:
            raise parser.error(f"the section {section} once")
        parser.take_mark("{", f"after {section}")
        lines = []
        while not (parser.next.kind == "mark" and parser.next.value == "}"):
            lines.append(parser.line())
        parser.take_mark("}", f"at the end of {section}")
        parser.take_mark(";", f"after the closing brace of {section}")
        for line in lines:
            for option, value in line.options.items():
                if "${" in value:
                    raise ConfigError(
                        f"{name}: {option} of {section} holds ${{...}}, which is replaced by no "
                        "property here: write the value itself"
                    )
        sections[section] = tuple(lines)
    return sections


def load_jaas_file(path: str) -> dict[str, tuple[JaasLine, ...]]:
    """Read a JAAS file; see `parse_jaas_file`.

    Raises:
        ConfigError: it cannot be read or parsed.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the JAAS file {path}: {error}") from error
    return parse_jaas_file(text, path)


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self._tokens = self._split(text)
        self.next = next(self._tokens)

    def error(self, expected: str) -> ConfigError:
        """Return the error for a token that is not the expected one."""
        found = {
            "end": "it ends",
            "text": "there is a text in quotes",
            "word": "there is a word",
            "mark": f"there is {self.next.value!r}",
        }[self.next.kind]
        return ConfigError(
            f"{self._name} is no JAAS configuration: line {self.next.line}: expected {expected}, "
            f'but {found}; give MODULE required name="value" ... ;'
        )

    def take(self, kind: str, expected: str) -> str:
        if self.next.kind != kind:
            raise self.error(expected)
        value = self.next.value
        if kind != "end":
            self.next = next(self._tokens)
        return value

    def take_mark(self, mark: str, where: str) -> None:
        if self.next.kind != "mark" or self.next.value != mark:
            raise self.error(f"{mark!r} {where}")
        self.next = next(self._tokens)

    def line(self) -> JaasLine:
        """Parse one login module up to its semicolon."""
        module = self.take("word", "the class of a login module")
        flag = self.take("word", f"one of {', '.join(FLAGS)} after {module}")
        if flag.lower() not in FLAGS:
            raise ConfigError(
                f"{self._name} is no JAAS configuration: line {self.next.line}: expected one of "
                f"{', '.join(FLAGS)} after {module}"
            )
        options: dict[str, str] = {}
        while self.next.kind == "word":
            option = self.take("word", "the name of an option")
            self.take_mark("=", f"after the option {option} of {module}")
            if self.next.kind not in ("word", "text"):
                raise self.error(f"the value of {option}, in double quotes")
            if option in options:
                raise ConfigError(f"{self._name}: the option {option} of {module} stands twice")
            options[option] = self.take(self.next.kind, "")
        self.take_mark(";", f"at the end of {module}, after its options")
        return JaasLine(module, options)

    def _split(self, text: str) -> Iterator[_Token]:
        position, line = 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                what = (
                    "a quote is not closed" if text[position] == '"' else "a sign is out of place"
                )
                if text.startswith("/*", position):
                    what = "a comment is not closed"
                raise ConfigError(
                    f"{self._name} is no JAAS configuration: line {line}: {what}; values with "
                    "other signs than letters and digits stand in double quotes"
                )
            kind = match.lastgroup
            if kind == "text":
                yield _Token("text", _ESCAPE.sub(_unescape, match["text"]), line)
            elif kind in ("mark", "word"):
                yield _Token(kind, match[kind], line)
            line += match[0].count("\n")
            position = match.end()
        yield _Token("end", "", line)


def _unescape(match: re.Match[str]) -> str:
    escape = match.group(1)
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    return _ESCAPES.get(escape, escape)
