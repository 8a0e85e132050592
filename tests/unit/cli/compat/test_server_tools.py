import click
import pytest

from zkbroker.cli.compat.kafka_tools import TOOLS
from zkbroker.cli.compat.server_tools import USAGE


def translated(*arguments):
    found = TOOLS["kafka-server-start"]
    return found.translate(found.parse(arguments))


def test_broker_in_foreground_and_background():
    assert translated("s.properties") == ["broker", "s.properties", "--as-server"]
    given = ("-daemon", "s.properties", "--override", "a=1", "--override=b=2")
    shown = ["broker", "s.properties", "--as-server", "--daemon", "--set", "a=1", "--set", "b=2"]
    assert translated(*given) == shown
    assert translated("--version") == ["--version"]


@pytest.mark.parametrize("arguments", [(), ("-daemon",)])
def test_missing_file_prints_the_usage(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        translated(*arguments)
    assert stopped.value.code == 1
    assert capsys.readouterr().out == USAGE + "\n"


@pytest.mark.parametrize("arguments", [("s.properties", "x"), ("s.properties", "-daemon"), ("-x",)])
def test_extra_arguments_are_refused(arguments):
    with pytest.raises(click.UsageError, match="Found non argument parameters: "):
        translated(*arguments)
