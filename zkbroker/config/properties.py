r"""Java `.properties` files.

The rules are those of `java.util.Properties.load`: `#` and `!` start a comment, `=`, `:` or white
space ends a key, a backslash at the end of a line continues it, `\uXXXX` and the usual escapes are
understood. Two escaped halves of a character are one; a half alone, which nothing could send, is
refused. Of two lines with one key the later wins. Files are read as UTF-8, and as ISO 8859-1, which
Java takes them for, where they are not UTF-8.

Invariant: a file with a line that cannot be a setting is refused as a whole, with the number of the
line; no part of a file that is not a property file takes effect.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from zkbroker.config.references import resolve
from zkbroker.errors import ConfigError

_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9a-fA-F]{4})")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_HALF = re.compile("[\ud800-\udfff]")
# Characters in the names of settings, log directories and listeners.
_KEY = re.compile(r"\w[\w.:$@/*+-]*")
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_properties(path: str | Path) -> dict[str, str]:
    """Read a properties file; values may refer to other files and to the environment.

    Raises:
        ConfigError: the file cannot be read, a line of it holds no setting, or a reference leads
            nowhere.
    """
    return resolve(read_properties(path), str(path), read_properties)


def read_properties(path: str | Path) -> dict[str, str]:
    """Read a properties file as it is.

    Raises:
        ConfigError: the file cannot be read, or a line of it holds no setting.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read properties file {path}: {error}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    properties: dict[str, str] = {}
    for number, key, value in _settings(text):
        problem = _problem(key, value)
        if problem is not None:
            raise ConfigError(
                f"line {number} of {path} cannot be read: {problem}; a property file holds lines "
                "KEY=VALUE and # comments"
            )
        properties[_unescape(key)] = _unescape(value)
    return properties


def parse_properties(text: str) -> dict[str, str]:
    """Parse the text of a properties file into a dict of strings."""
    return {_unescape(key): _unescape(value) for _, key, value in _settings(text)}


def _problem(key: str, value: str) -> str | None:
    """Say why a line cannot be a setting of any generation's; None when it can."""
    if _CONTROL.search(key + value):
        return "it holds control characters, so the file is not text"
    if _BAD_ESCAPE.search(key) or _BAD_ESCAPE.search(value):
        return "\\u is not followed by four hexadecimal digits"
    if _HALF.search(_unescape(value)):
        return "\\u stands for half a character, without the other half"
    if not _KEY.fullmatch(_unescape(key)):
        return f"{key[:60]!r} is not a name"
    return None


def _settings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number of its first line, the key and the value of each setting."""
    for number, line in _logical_lines(text):
        end = _KEY_END.search(line)
        if end is None:
            yield number, line, ""
        else:
            yield number, line[: end.start(1)], line[end.end(1) :]


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending = ""
    first = 0
    # Not `splitlines`, which also splits at line ends that Java does not know.
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(" \t\f")
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        lines.append((first, pending.rstrip()))
        pending = ""
    if pending:
        lines.append((first, pending))
    return lines


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _PLAIN_ESCAPES.get(escape, escape)

    found = _ESCAPE.sub(replace, text)
    # Java escapes a character beyond 16 bits by its two halves in UTF-16.
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
