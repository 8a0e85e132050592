import json

import click
import pytest

from zkbroker.cli import top
from zkbroker.cli.main import run
from zkbroker.cli.output import name_partitions, print_json, print_table, say
from zkbroker.errors import ClientError

UNSAFE = "g\x1b[2J\nfake"


def test_lines_tables_and_json_escape_control_characters(capsys):
    say(UNSAFE)
    print_table(["group"], [[UNSAFE], [None]])
    print_json([UNSAFE + "\x9b"])
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert shown.startswith("g\\x1b[2J\\nfake\n")
    assert [line.strip() for line in shown.splitlines()][1:4] == ["group", "g\\x1b[2J\\nfake", "-"]
    assert json.loads(shown[shown.index("[\n") :]) == [UNSAFE + "\x9b"]


def test_error_message_escapes_control_characters(capsys):
    @click.command()
    def failing():
        raise ClientError("refused: " + UNSAFE)

    with pytest.raises(SystemExit):
        run(failing, [], "zkbroker")
    assert capsys.readouterr().err == "error: refused: g\\x1b[2J\n    fake\n"


def test_top_escapes_control_characters_and_prints_markup(capsys):
    from rich.console import Console

    snapshot = top.ClusterSnapshot(
        1.0, groups={("[red]" + UNSAFE, "zookeeper"): {("t", 0): (1, None)}}
    )
    Console(markup=False, width=160).print(top.picture(snapshot, snapshot))
    shown = capsys.readouterr().out
    assert "[red]g\\x1b[2J\\nfake" in shown


def test_usage_error_escapes_control_characters(capsys):
    with pytest.raises(SystemExit):
        run(click.Command("c"), ["an\x07argument"], "zkbroker")
    shown = capsys.readouterr().err
    assert "an\\x07argument" in shown
    assert shown.startswith("Usage: ")


def test_many_partitions_are_counted_by_topic():
    assert name_partitions([("t", 0), ("u", 3)]) == "t-0, u-3"
    many = [("t", number) for number in range(40)] + [("u", number) for number in range(3)]
    assert name_partitions(many) == "43 partitions of 2 topics: t (40), u (3)"
    topics = [(f"t{number}", 0) for number in range(8)]
    assert name_partitions(topics).endswith("t3 (1), t4 (1) and 3 more")


def test_columns_variable_limits_the_table_width(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    print_table(["path"], [["x" * 30]])
    assert [len(line.rstrip()) for line in capsys.readouterr().out.splitlines()] == [4, 20, 10]


NAMES = ["a-topic-with-a-long-name-0", "/var/lib/zkbroker/a-directory"]
LONG = "/very/long" * 30


def table_output(capsys):
    print_table(["broker", "partition", "directory"], [[1, *NAMES], [2, *NAMES]], numbers=[0])
    return capsys.readouterr().out


def test_piped_table_prints_one_line_per_row_with_whole_names(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    heading, *rows = table_output(capsys).splitlines()
    assert "\x1b" not in heading
    assert [row.split() for row in rows] == [["1", *NAMES], ["2", *NAMES]]
    assert [heading.index(word) for word in ("partition", "directory")] == [
        rows[0].index(name) for name in NAMES
    ]
    print_table(["path", "n"], [[LONG, 1]], numbers=[1])
    assert capsys.readouterr().out.splitlines()[1].split() == [LONG, "1"]


def test_narrow_terminal_wraps_names(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = table_output(capsys).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 50


def test_very_narrow_terminal_prints_one_block_per_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    first, second = table_output(capsys).split("\n\n")
    assert first.splitlines() == [
        "broker     1", f"partition  {NAMES[0]}", f"directory  {NAMES[1]}",
    ]  # fmt: skip
    assert second.startswith("broker     2\n")
