import click
import pytest

from zkbroker.cli.compat.kafka_tool import Tool


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


def test_ignored_option_is_warned_of(capsys):
    assert tool().parse(["--sync", "1"]) == {"sync": ["1"]}
    assert "--sync has no effect here" in capsys.readouterr().err
