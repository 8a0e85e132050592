"""kcat's command line in words of ours."""

import click
import pytest

from zkbroker.cli.compat import kcat


def translated(mode, *given, rest=(), topics=("t",), properties=None):
    return kcat._translated(mode, given, rest, topics, "b:1", properties or {})


def test_reading_keeps_options_of_reading_and_drops_those_of_writing():
    found = translated("-C", ("-o", "beginning"), ("-e", ""), ("-z", "gzip"), ("-p", "3"))
    assert found[:3] == ["consume", "-b", "b:1"]
    assert "-obeginning" in found
    assert "-e" in found
    assert "-p3" in found
    assert "gzip" not in found
    assert found[-3:] == ["-t", "t", "--"]


def test_writing_skips_empty_lines_and_takes_files():
    found = translated("-P", ("-z", "gzip"), rest=("file",), properties={"topic.acks": "1"})
    assert found == [
        *("produce", "-b", "b:1", "--skip-empty", "--codec", "gzip"),
        *("-X", "acks=1", "-t", "t", "--", "file"),
    ]


def test_a_group_takes_more_topics():
    assert translated("-G", ("-G", "g"), rest=("u",))[-5:] == ["-G", "g", "--", "t", "u"]


@pytest.mark.parametrize(
    ("mode", "given", "more", "reason"),
    [
        ("-C", (), {"topics": ()}, "-t TOPIC is missing"),
        ("-C", (), {"rest": ("file",)}, "only -P takes files"),
        ("-C", (("-r", "http://x"),), {}, "Avro"),
        ("-C", (("-X", "list"),), {}, "docs/configuration"),
    ],
)
def test_what_cannot_be_done_is_refused(mode, given, more, reason):
    with pytest.raises(click.UsageError, match=reason):
        translated(mode, *given, **more)


def test_the_last_mode_counts_and_is_guessed_without_one(monkeypatch, capsys):
    assert kcat._mode(["-C", "-P"]) == "-P"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert kcat._mode([]) == "-C"
    assert "Consumer mode" in capsys.readouterr().err
    assert kcat._mode(["-q"]) == "-C"
    assert capsys.readouterr().err == ""


def test_settings_come_from_files_and_the_command_line_counts(tmp_path, monkeypatch):
    file = tmp_path / "kcat.conf"
    file.write_text("acks=1\nlinger.ms=5\n")
    monkeypatch.setenv("KCAT_CONFIG", str(file))
    assert kcat._properties([("-X", "acks=0")]) == {"acks": "0", "linger.ms": "5"}
    with pytest.raises(click.UsageError, match="is not KEY=VALUE"):
        kcat._properties([("-X", "acks")])
