import json

import click
import pytest

from zkbroker.cli import top
from zkbroker.cli.main import run
from zkbroker.cli.output import name_partitions, print_json, print_table, say
from zkbroker.errors import ClientError

EVIL = "g\x1b[2J\nfake"


def test_lines_tables_and_json_are_harmless(capsys):
    say(EVIL)
    print_table(["group"], [[EVIL], [None]])
    print_json([EVIL + "\x9b"])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert shown.startswith("g\\x1b[2J\\nfake\n")
    assert [line.strip() for line in shown.splitlines()][1:4] == ["group", "g\\x1b[2J\\nfake", "-"]
    assert json.loads(shown[shown.index("[\n") :]) == [EVIL + "\x9b"]


def test_an_error_text_of_a_peer_is_harmless(capsys):
    @click.command()
    def failing():
        raise ClientError("refused: " + EVIL)

    with pytest.raises(SystemExit):
        run(failing, [], "zkbroker")
    assert capsys.readouterr().err == "error: refused: g\\x1b[2J\n    fake\n"


def test_the_picture_of_top_obeys_neither_escapes_nor_markup(capsys):
    from rich.console import Console

    snapshot = top.Snapshot(1.0, groups={("[red]" + EVIL, "zookeeper"): {("t", 0): (1, None)}})
    Console(markup=False, width=160).print(top.picture(snapshot, snapshot))
    shown = capsys.readouterr().out
    assert "[red]g\\x1b[2J\\nfake" in shown


def test_a_usage_error_is_harmless(capsys):
    with pytest.raises(SystemExit):
        run(click.Command("c"), ["an\x07argument"], "zkbroker")
    shown = capsys.readouterr().err
    assert "an\\x07argument" in shown
    assert shown.startswith("Usage: ")


def test_few_partitions_are_named_and_many_are_counted_by_topic():
    assert name_partitions([("t", 0), ("u", 3)]) == "t-0, u-3"
    many = [("t", number) for number in range(40)] + [("u", number) for number in range(3)]
    assert name_partitions(many) == "43 partitions of 2 topics: t (40), u (3)"
    topics = [(f"t{number}", 0) for number in range(8)]
    assert name_partitions(topics).endswith("t3 (1), t4 (1) and 3 more")


def test_a_table_that_is_piped_has_one_line_for_a_row(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(["path", "n"], [["/very/long" * 30, 1]], numbers=[1])
    head, row = capsys.readouterr().out.splitlines()
    assert row.split() == ["/very/long" * 30, "1"]
    assert "\x1b" not in head


def test_a_width_that_is_asked_for_is_kept(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table(["path"], [["x" * 30]])
    assert [len(line.rstrip()) for line in capsys.readouterr().out.splitlines()] == [4, 20, 10]


NAMES = ["a-topic-with-a-long-name-0", "/var/lib/zkbroker/a-directory"]


def printed(capsys):
    print_table(["broker", "partition", "directory"], [[1, *NAMES], [2, *NAMES]], numbers=[0])
    return capsys.readouterr().out


def test_a_table_in_a_pipe_has_whole_names_and_one_line_a_row(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    heading, *rows = printed(capsys).splitlines()
    assert [row.split() for row in rows] == [["1", *NAMES], ["2", *NAMES]]
    assert [heading.index(word) for word in ("partition", "directory")] == [
        rows[0].index(name) for name in NAMES
    ]


def test_a_narrow_terminal_breaks_names_where_they_can_be_read(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = printed(capsys).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 50


def test_a_narrower_one_gets_a_block_a_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    first, second = printed(capsys).split("\n\n")
    assert first.splitlines() == [
        "broker     1", f"partition  {NAMES[0]}", f"directory  {NAMES[1]}",
    ]  # fmt: skip
    assert second.startswith("broker     2\n")
