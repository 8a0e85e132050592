import json
import logging
import sys

from zkbroker.cli.logs import JsonFormatter, TextFormatter

FORGED = "me\n2026-01-01 00:00:00,000 INFO zkbroker forged\x1b]0;owned\x07\x9b"


def record(message, *arguments, error=None):
    exc_info = None
    if error is not None:
        try:
            raise error
        except type(error):
            exc_info = sys.exc_info()
    return logging.LogRecord("zkbroker.x", logging.INFO, "x.py", 1, message, arguments, exc_info)


def test_line_end_in_a_message_is_escaped():
    line = TextFormatter().format(record("request refused client=%s", FORGED))
    assert "\n" not in line
    assert line.endswith(
        r"INFO zkbroker.x request refused client=me\n2026-01-01 00:00:00,000 INFO zkbroker forged"
        r"\x1b]0;owned\x07\x9b"
    )


def test_traceback_lines_are_indented_and_escaped():
    first, *rest = TextFormatter().format(record("failed", error=ValueError(FORGED))).split("\n")
    assert first.endswith("INFO zkbroker.x failed")
    assert rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest)
    assert not any("\x1b" in line or "\x9b" in line for line in rest)


def test_json_line_keeps_the_message_without_control_characters():
    line = JsonFormatter().format(record("client=%s", FORGED))
    assert json.loads(line)["message"] == f"client={FORGED}"
    assert "\n" not in line
    assert "\x9b" not in line
