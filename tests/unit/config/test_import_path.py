"""Objects given by their import path."""

import json

import pytest

from zkbroker.config.import_path import (
    import_function,
    import_instance,
    import_object,
    is_import_path,
)
from zkbroker.errors import ConfigError


class Outer:
    class Inner:
        pass


class NeedsArguments:
    def __init__(self, argument):
        pass


@pytest.mark.parametrize(
    ("name", "expected"), [("range", False), ("a.B", True), ("a:B", True), ("a.b:C.D", True)]
)
def test_import_path_contains_module(name, expected):
    assert is_import_path(name) is expected


def test_objects_are_found_after_colon_or_dot():
    assert import_object("k", f"{__name__}:Outer") is Outer
    assert import_object("k", f"{__name__}.Outer") is Outer
    assert import_object("k", f"{__name__}:Outer.Inner") is Outer.Inner
    assert isinstance(import_instance("k", f"{__name__}:Outer.Inner"), Outer.Inner)
    assert import_instance("k", "string:digits") == "0123456789"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no.such:thing", r"k='no\.such:thing' is not allowed: it cannot be imported"),
        (f"{__name__}:Missing", "cannot be imported"),
        (":Name", "cannot be imported"),
        ("name:", "cannot be imported"),
        (f"{__name__}:NeedsArguments", "cannot be made"),
    ],
)
def test_failed_import_or_construction_is_refused(path, message):
    with pytest.raises(ConfigError, match=message):
        import_instance("k", path)


def test_import_error_of_module_is_in_message(tmp_path, monkeypatch):
    (tmp_path / "broken_plugin.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="no licence"):
        import_object("k", "broken_plugin:Anything")


def test_function_path_needs_colon():
    assert import_function("k", "json:loads") is json.loads
    with pytest.raises(ConfigError, match="classes of Java are not run"):
        import_function("k", "org.acme.Handler")
    with pytest.raises(ConfigError, match="it is not a function"):
        import_function("k", "json:__name__")
