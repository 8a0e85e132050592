import pytest

from zkbroker.errors import RegistryError
from zkbroker.zookeeper import java


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A `java` that says what it is told to."""

    def make(said):
        command = tmp_path / "bin" / "java"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
        command.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return str(command)

    return make


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('java version "1.8.0_392"', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ("a machine of one's own", None),
    ],
)
def test_versions_of_every_spelling(stand_in, said, version):
    assert java.java_version(stand_in(said)) == version


def test_an_old_java_is_named_with_its_version_and_a_cure(stand_in):
    old = stand_in('java version "1.8.0_392"')
    with pytest.raises(RegistryError, match=f"{old} is version 8: .*JAVA_HOME"):
        java.require_java()


def test_a_new_java_is_taken(stand_in):
    new = stand_in('openjdk version "21" 2023-09-19')
    assert java.require_java() == new


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}])
def test_the_plain_locale_is_widened_so_that_any_path_can_be_opened(monkeypatch, locale):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert java.java_environment()["LC_ALL"] == "C.UTF-8"


def test_a_locale_that_was_chosen_stays(monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("LC_CTYPE", "de_DE.UTF-8")
    monkeypatch.setenv("LANG", "C")
    assert "LC_ALL" not in java.java_environment()
