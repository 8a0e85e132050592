"""Values that stand elsewhere: found, or refused by name, and never shown."""

import logging
import os

import pytest

from zkbroker.cli.settings import parse_settings
from zkbroker.config.properties import load_properties, read_properties
from zkbroker.config.references import resolve
from zkbroker.errors import ConfigError


@pytest.fixture
def secrets(tmp_path):
    file = tmp_path / "secrets.properties"
    file.write_text("key=hush hush\nother=${file:x:y}\ncolon:name=c\n")
    file.chmod(0o600)
    return file


def test_references_to_files_and_the_environment(tmp_path, secrets, monkeypatch):
    monkeypatch.setenv("ZK_PASSWORD", "pa$s")
    file = tmp_path / "server.properties"
    file.write_text(
        f"ssl.key.password=${{file:{secrets}:key}}\n"
        'sasl.jaas.config=M required username=a password="${env:ZK_PASSWORD}";\n'
        f"nested=${{file:{secrets}:other}}\nplain=${{dollar}} ${{file:x\n"
    )
    assert load_properties(file) == {
        "ssl.key.password": "hush hush",
        "sasl.jaas.config": 'M required username=a password="pa$s";',
        "nested": "${file:x:y}",
        "plain": "${dollar} ${file:x",
    }
    assert parse_settings(("a=${env:ZK_PASSWORD}",), "--set") == {"a": "pa$s"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("${env:NO_SUCH_NAME}", "the environment has no variable NO_SUCH_NAME: set it"),
        ("${file:/nowhere/x:key}", "No such file or directory"),
        ("${file:key}", "is not ${file:PATH:KEY}"),
        ("${file:SECRETS:none}", "has no key none: add it there"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(secrets, value, said):
    value = value.replace("SECRETS", str(secrets))
    with pytest.raises(ConfigError) as refused:
        resolve({"ssl.key.password": value}, "server.properties", read_properties, {})
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"ssl.key.password={value} of server.properties")
    assert "hush" not in str(refused.value)


def test_a_file_that_everybody_can_read_is_named(secrets, caplog):
    secrets.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        resolve({"a": f"${{file:{secrets}:key}}"}, "f", read_properties, os.environ)
    assert f"secrets can be read by every user path={secrets}: chmod 0600" in caplog.text
