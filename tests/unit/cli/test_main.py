import io
import subprocess
import sys

import click
import pytest

from zkbroker.cli.main import COMMANDS, cli, run
from zkbroker.errors import ConfigError


def exit_status(command, *arguments):
    with pytest.raises(SystemExit) as stopped:
        run(command, arguments, "zkbroker")
    return stopped.value.code or 0


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_of_every_command_has_an_example(name, capsys):
    assert exit_status(cli, name, "--help") == 0
    shown = capsys.readouterr().out
    assert f"Usage: zkbroker {name}" in shown
    assert "Example" in shown


def commands(group, context):
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {sub}", each) for sub, each in commands(found, context))


def test_every_option_and_command_has_help():
    context = click.Context(cli)
    for name, found in commands(cli, context):
        # Longer first sentences are cut off in the list of the group's commands.
        assert " " not in name or not found.get_short_help_str(60).endswith("..."), name
        for option in found.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, (name, option.opts)


def test_the_help_lists_every_command(capsys):
    assert exit_status(cli, "--help") == 0
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert name in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("topic", "Did you mean topics or top?"),
        ("prodce", "Did you mean produce?"),
        ("fly", "No such command 'fly'.\n"),
        ("kafka-topic", "Did you mean kafka-topics or"),
        ("kafka.tools.ConsoleConsummer", "Did you mean kafka.tools.ConsoleConsumer"),
    ],
)
def test_unknown_command_exits_with_2_and_suggests_similar_ones(typed, meant, capsys):
    assert exit_status(cli, typed) == 2
    assert meant in capsys.readouterr().err


def test_library_error_is_printed_as_one_line(capsys):
    @click.command()
    def broken():
        raise ConfigError("port='eighty' is not allowed: give a whole number")

    assert exit_status(broken) == 1
    assert capsys.readouterr().err == "error: port='eighty' is not allowed: give a whole number\n"


def test_keyboard_interrupt_exits_with_130():
    @click.command()
    def interrupted():
        raise KeyboardInterrupt

    assert exit_status(interrupted) == 130


def test_start_imports_neither_gevent_nor_rich():
    code = (
        "import sys, zkbroker.cli\n"
        "assert not {'gevent', 'rich', 'kazoo', 'pyspark'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unencodable_character_is_printed_as_an_escape(monkeypatch):
    @click.command()
    def names():
        print("caf\u00e9 \udcff", file=sys.stdout, flush=True)

    shown = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(shown, encoding="ascii"))
    assert exit_status(names) == 0
    assert shown.getvalue() == b"caf\\xe9 \\udcff\n"
