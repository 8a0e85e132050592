r"""Java `.properties` files.

The rules are those of `java.util.Properties.load`: `#` and `!` start a comment, `=`, `:` or white
space ends a key, a backslash at the end of a line continues it, `\uXXXX` and the usual escapes are
understood. Of two lines with one key the later wins. Files are read as UTF-8, and as ISO 8859-1,
which Java takes them for, where they are not UTF-8.
"""

import re
from pathlib import Path

from zkbroker.errors import ConfigError

_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(path: str | Path) -> dict[str, str]:
    """Read a properties file.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read properties file {path}: {error}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Parse the text of a properties file into a dict of strings."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _KEY_END.search(line)
        key, value = (line, "") if end is None else (line[: end.start(1)], line[end.end(1) :])
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    # Not `splitlines`, which knows ends of lines that Java does not.
    for raw in _LINE_END.split(text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        lines.append(pending.rstrip())
        pending = ""
    if pending:
        lines.append(pending)
    return lines


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _PLAIN_ESCAPES.get(escape, escape)

    return _ESCAPE.sub(replace, text)
