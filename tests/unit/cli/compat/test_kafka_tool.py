import click
import pytest
from click.testing import CliRunner

from zkbroker.cli.compat.kafka_tool import Tool
from zkbroker.cli.main import cli


def tool(**fields):
    given = {
        "values": ["topic"],
        "flags": ["verbose"],
        "optional": ["partition"],
        "ignored": ["sync"],
        "positional": 1,
    }
    return Tool("A tool.", lambda options: [], example="", **{**given, **fields})


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--topic", "t"], {"topic": ["t"]}),
        (["--topic=t", "--topic", "u"], {"topic": ["t", "u"]}),
        (["--topic", "--odd"], {"topic": ["--odd"]}),
        (["--verbose", "name"], {"verbose": [], "": ["name"]}),
        (["--partition", "--verbose"], {"partition": [], "verbose": []}),
        (["--partition", "3"], {"partition": ["3"]}),
        (["--partition=3"], {"partition": ["3"]}),
    ],
)
def test_option_forms(arguments, options):
    assert tool().parse(arguments) == options


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--topik", "t"], "--topik is not an option; there are --partition --topic --verbose"),
        (["--topic"], "--topic needs a value"),
        (["one", "two"], "unexpected argument 'two'"),
        (["--verbose=yes"], "--verbose is not an option"),
    ],
)
def test_unknown_or_incomplete_option_is_refused(arguments, reason):
    with pytest.raises(click.UsageError, match=reason):
        tool().parse(arguments)


def test_ignored_options_are_warned_of(capsys):
    given = tool(flags=["quiet"], ignored=["sync", "quiet"]).parse(["--sync", "1", "--quiet"])
    assert given == {"sync": ["1"], "quiet": []}
    warnings = [f"warning: --{name} has no effect here" for name in ("sync", "quiet")]
    assert capsys.readouterr().err.splitlines() == warnings


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("kafka-topics --zookeper x", "--zookeper is not an option; there are "),
        ("kafka-topics --zookeeper x", "give exactly one of --list, --create, --describe"),
    ],
)
def test_invalid_command_line_of_a_tool_exits_with_2(typed, message):
    ran = CliRunner().invoke(cli, typed)
    assert ran.exit_code == 2
    assert message in ran.output
