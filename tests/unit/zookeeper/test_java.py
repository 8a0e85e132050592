import pytest

from zkbroker.errors import RegistryError
from zkbroker.zookeeper import java


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Makes a `java` command that prints the given version text."""

    def make(text):
        command = tmp_path / "bin" / "java"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
        command.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return str(command)

    return make


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ("an unknown machine", None),
    ],
)
def test_java_version_is_parsed_in_every_spelling(fake_java, text, version):
    assert java.java_version(fake_java(text)) == version


def test_only_recent_java_is_accepted(fake_java):
    old = fake_java('java version "1.8.0_392"')
    with pytest.raises(RegistryError, match=f"{old} is version 8: .*JAVA_HOME"):
        java.require_java()
    new = fake_java('openjdk version "21" 2023-09-19')
    assert java.require_java() == new


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}])
def test_plain_locale_is_replaced_by_utf_8(monkeypatch, locale):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert java.java_environment()["LC_ALL"] == "C.UTF-8"


def test_configured_locale_is_kept(monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("LC_CTYPE", "de_DE.UTF-8")
    monkeypatch.setenv("LANG", "C")
    assert "LC_ALL" not in java.java_environment()
