import click
import pytest

from zkbroker.cli.compat.kafka_tools import TOOLS
from zkbroker.cli.compat.server_tools import USAGE


def translated(*arguments):
    found = TOOLS["kafka-server-start"]
    return found.translate(found.parse(arguments))


def test_a_broker_in_the_foreground_and_in_the_background():
    assert translated("s.properties") == ["broker", "s.properties", "--as-server"]
    given = ("-daemon", "s.properties", "--override", "a=1", "--override=b=2")
    shown = ["broker", "s.properties", "--as-server", "--daemon", "--set", "a=1", "--set", "b=2"]
    assert translated(*given) == shown
    assert translated("--version") == ["--version"]


@pytest.mark.parametrize("arguments", [(), ("-daemon",)])
def test_without_a_file_the_usage_of_the_script_is_printed(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        translated(*arguments)
    assert stopped.value.code == 1
    assert capsys.readouterr().out == USAGE + "\n"


@pytest.mark.parametrize("arguments", [("s.properties", "x"), ("s.properties", "-daemon"), ("-x",)])
def test_what_is_no_option_is_refused(arguments):
    with pytest.raises(click.UsageError, match="Found non argument parameters: "):
        translated(*arguments)
