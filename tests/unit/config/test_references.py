"""References to values in files and the environment: resolved, or refused without the value."""

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


def test_references_to_files_and_environment_are_resolved(tmp_path, secrets, monkeypatch):
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
    ("value", "message"),
    [
        ("${env:NO_SUCH_NAME}", "the environment has no variable NO_SUCH_NAME: set it"),
        ("${file:/nowhere/x:key}", "No such file or directory"),
        ("${file:key}", "is not ${file:PATH:KEY}"),
        ("${file:SECRETS:none}", "has no key none: add it there"),
    ],
)
def test_unresolvable_reference_is_refused(secrets, value, message):
    value = value.replace("SECRETS", str(secrets))
    with pytest.raises(ConfigError) as refused:
        resolve({"ssl.key.password": value}, "server.properties", read_properties, {})
    assert message in str(refused.value)
    assert str(refused.value).startswith(f"ssl.key.password={value} of server.properties")
    assert "hush" not in str(refused.value)


def test_world_readable_secrets_file_is_warned_about(secrets, caplog):
    secrets.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        resolve({"a": f"${{file:{secrets}:key}}"}, "f", read_properties, os.environ)
    assert f"secrets can be read by every user path={secrets}: chmod 0600" in caplog.text
