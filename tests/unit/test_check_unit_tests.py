"""The check of `make lint` that every module has tests."""

import importlib.util

import pytest

from tests.support.markdown import ROOT

SPEC = importlib.util.spec_from_file_location("check", ROOT / "scripts" / "check_unit_tests.py")
check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("NOTHING_TO_DECIDE", "TOGETHER", "TOGETHER_FOLDERS", "REAL_THING"):
        monkeypatch.setattr(check, name, {})

    def make(*files):
        for file in files:
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        return check.find_problems(tmp_path)

    return make


def test_module_without_tests_is_reported_with_the_expected_file(tree):
    (problem,) = tree("zkbroker/log/segments/index.py", "zkbroker/log/__init__.py")
    assert "zkbroker/log/segments/index.py has no tests" in problem
    assert problem.endswith("write tests/unit/log/segments/test_index.py")


def test_tests_may_be_beside_the_module_or_in_its_room(tree):
    assert tree("zkbroker/log/segments/index.py", "tests/unit/log/test_index.py") == []
    loader = ("spark_loader/lake/ledger.py", "tests/unit/spark_loader/lake/test_ledger.py")
    assert tree(*loader) == []


def test_exceptions_are_checked(tree, monkeypatch):
    monkeypatch.setattr(check, "REAL_THING", {"zkbroker/cli/up.py": "integration/test_up.py"})
    (problem,) = tree("zkbroker/cli/up.py")
    assert problem.endswith("tested by tests/integration/test_up.py, which does not exist")
    assert tree("tests/integration/test_up.py") == []
    assert tree("tests/unit/cli/test_up.py") == [
        "zkbroker/cli/up.py has tests: take it off the list of exceptions"
    ]
    monkeypatch.setattr(check, "NOTHING_TO_DECIDE", {"zkbroker/gone.py": "data"})
    assert "zkbroker/gone.py is an exception and does not exist" in tree()
