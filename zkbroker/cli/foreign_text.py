r"""Makes text from other programs harmless in logs and on terminals.

Client ids, group names and error texts of peers may contain anything: a newline forges a log line,
an escape sequence moves the cursor, sets a title or writes to the clipboard, a bidirectional
control reorders the displayed text.

Invariant: the result has no control character but the tab, no line end, no character that reorders
    or hides text, no half of a surrogate pair. Such a character is shown as Python writes it
    (`\x1b`, `\n`, `\u202e`); everything else is unchanged.
"""

import re

# C0 without tab, DEL and C1; line and paragraph separator; marks, embeddings, overrides and
# isolates of text direction; zero-width space and byte order mark; surrogates; language tags.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
CONTINUATION = "    "
"""Prefix of the later lines of a text, so that none looks like a line of its own."""


def harmless(text: object) -> str:
    """Return a text, or the text of an object, as one harmless line."""
    return _UNSAFE.sub(_escaped, str(text))


def harmless_lines(text: object) -> str:
    """Return a text of several lines: each harmless, the later ones indented."""
    return f"\n{CONTINUATION}".join(map(harmless, str(text).rstrip("\n").split("\n")))


def harmless_json(text: str) -> str:
    r"""Return JSON text with unsafe characters as `\uXXXX`; its value stays the same.

    Args:
        text: from `json.dumps`, which has escaped control characters below the space; line ends are
            only between values.
    """
    return _UNSAFE.sub(_escaped_in_json, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escaped_in_json(match: re.Match[str]) -> str:
    if match[0] in "\r\n":
        return match[0]
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
