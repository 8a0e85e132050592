import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.markdown import ROOT
from zkbroker.cli.foreign_text import harmless, harmless_json, harmless_lines

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("counters", "counters"),
        ("Zürich ✓ 東京\tC:\\logs", "Zürich ✓ 東京\tC:\\logs"),
        ("x\n2026-01-01 INFO zkbroker forged", r"x\n2026-01-01 INFO zkbroker forged"),
        ("\x1b]0;owned\x07\x1b[2J", r"\x1b]0;owned\x07\x1b[2J"),
        ("\x9b31m\x7f\r\x00", r"\x9b31m\x7f\r\x00"),
        ("a\u202eb\u2066c\u2028d\ufeff", r"a\u202eb\u2066c\u2028d\ufeff"),
        ("\udcff", r"\udcff"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert harmless(text) == shown


@given(ANY_TEXT)
def test_any_text_becomes_one_line_without_control_characters(text):
    line = harmless(text)
    line.encode()
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", line)
    assert line.splitlines() in ([line], [])
    assert harmless(line) == line


@given(ANY_TEXT)
def test_escaped_json_keeps_its_value(text):
    written = harmless_json(json.dumps({"a": text}, indent=2, ensure_ascii=False))
    assert json.loads(written) == {"a": text}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]", written)


def test_later_lines_are_indented():
    assert (
        harmless_lines("error: away\nerror: forged\x1b\n") == "error: away\n    error: forged\\x1b"
    )


def test_commands_print_only_through_output():
    printing = {
        path.name
        for path in (ROOT / "zkbroker" / "cli").rglob("*.py")
        if re.search(r"click\.s?echo|\bprint\(", path.read_text("utf-8"))
    }
    # kcat's own help, what `dump-log` writes to files and pipes, and a picture of harmless cells.
    assert printing == {"output.py", "kcat.py", "dump_log.py", "top.py"}
