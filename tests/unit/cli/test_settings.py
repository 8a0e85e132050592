import click
import pytest

from zkbroker.cli.settings import parse_settings


def test_setting_values_keep_equals_signs_and_inner_blanks():
    given = ("a=1", " b = x = y ", "c=")
    assert parse_settings(given, "-X") == {"a": "1", "b": "x = y", "c": ""}


@pytest.mark.parametrize("setting", ["a", "=1", " =1"])
def test_invalid_setting_is_refused_with_its_option(setting):
    with pytest.raises(click.BadParameter, match="is not KEY=VALUE") as refused:
        parse_settings((setting,), "-X")
    assert refused.value.param_hint == "-X"
