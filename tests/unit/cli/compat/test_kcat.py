"""The command line of kcat, translated into ours."""

import click
import pytest

from zkbroker.cli.compat import kcat


def translated(mode, *given, rest=(), topics=("t",), properties=None):
    return kcat._translated(mode, given, rest, topics, "b:1", properties or {})


def test_consumer_mode_drops_producer_options():
    found = translated("-C", ("-o", "beginning"), ("-e", ""), ("-z", "gzip"), ("-p", "3"))
    assert found[:3] == ["consume", "-b", "b:1"]
    assert "-obeginning" in found
    assert "-e" in found
    assert "-p3" in found
    assert "gzip" not in found
    assert found[-3:] == ["-t", "t", "--"]


def test_producer_mode_skips_empty_lines_and_takes_files():
    found = translated("-P", ("-z", "gzip"), rest=("file",), properties={"topic.acks": "1"})
    assert found == [
        *("produce", "-b", "b:1", "--skip-empty", "--codec", "gzip"),
        *("-X", "acks=1", "-t", "t", "--", "file"),
    ]


def test_group_mode_takes_several_topics():
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
def test_unsupported_options_are_refused(mode, given, more, reason):
    with pytest.raises(click.UsageError, match=reason):
        translated(mode, *given, **more)


def test_last_mode_wins_and_default_depends_on_terminal(monkeypatch, capsys):
    assert kcat._mode(["-C", "-P"]) == "-P"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert kcat._mode([]) == "-C"
    assert "Consumer mode" in capsys.readouterr().err
    assert kcat._mode(["-q"]) == "-C"
    assert capsys.readouterr().err == ""


def test_command_line_settings_override_the_file(tmp_path, monkeypatch):
    file = tmp_path / "kcat.conf"
    file.write_text("acks=1\nlinger.ms=5\n")
    monkeypatch.setenv("KCAT_CONFIG", str(file))
    assert kcat._properties([("-X", "acks=0")]) == {"acks": "0", "linger.ms": "5"}
    with pytest.raises(click.UsageError, match="is not KEY=VALUE"):
        kcat._properties([("-X", "acks")])
