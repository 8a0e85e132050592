"""ARCHITECTURE.md and CONTRIBUTING.md match the tree; files and classes stay small."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.support.markdown import ROOT

PAGES = (ROOT / "docs" / "ARCHITECTURE.md", ROOT / "docs" / "CONTRIBUTING.md")
PATH = re.compile(r"`((?:zkbroker|spark_loader|tests|docs|scripts|bench|examples)/[\w./-]*)`")
WALK = re.compile(r"^### (.+)\n((?:\d+\. `[^`]+`.*\n(?:   .*\n)*)+)", re.MULTILINE)
STEP = re.compile(r"^\d+\. `([^`]+)`", re.MULTILINE)
MOST_FILES = 14
MOST_LINES = 400
MOST_METHODS = 30

TWO_THINGS = {
    "FetchRequest",  # of the wire, and of the classic `SimpleConsumer`
}

COMPOSE = (
    "zkbroker/broker/composition.py",
    "zkbroker/broker/handler_table.py",
    "zkbroker/broker/replica_copying.py",
)


def walks():
    text = PAGES[0].read_text(encoding="utf-8")
    return {title: STEP.findall(steps) for title, steps in WALK.findall(text)}


@cache
def imports_of(name):
    """Return the files that a file imports; a package stands for what it imports itself."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= files_of(node.module)
            for alias in node.names:
                found |= files_of(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found |= files_of(alias.name)
    return frozenset(found)


def files_of(module):
    path = ROOT / module.replace(".", "/")
    if path.with_suffix(".py").is_file():
        return {path.with_suffix(".py").relative_to(ROOT).as_posix()}
    package = path / "__init__.py"
    if module.count(".") and package.is_file():
        return imports_of(package.relative_to(ROOT).as_posix())
    return set()


def connected(one, other):
    composed = frozenset[str]().union(*map(imports_of, COMPOSE))
    return (
        one in imports_of(other)
        or other in imports_of(one)
        or (one in composed and other in composed)
    )


def there(name):
    return (ROOT / name).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_exists(page):
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    assert len(named) > 10
    assert sorted(name for name in named if not there(name)) == []


@pytest.mark.parametrize("title", walks())
def test_each_file_of_a_way_is_connected_to_an_earlier_one(title):
    steps = walks()[title]
    assert len(steps) == len(set(steps)) > 5
    assert len(steps) <= MOST_FILES
    assert [name for name in steps if not there(name)] == []
    apart = [
        name
        for at, name in enumerate(steps)
        if at and not any(connected(earlier, name) for earlier in steps[:at])
    ]
    assert apart == []


def test_request_ways_are_traced():
    text = PAGES[0].read_text(encoding="utf-8")
    for way in ("produce", "fetch", "leader_and_isr"):
        table = text.split(f"<!-- traced: {way} -->")[1].split("<!-- end of trace -->")[0]
        files = re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE)
        assert len(files) >= 8
        assert [name for name in files if not there(f"zkbroker/{name}")] == []


@pytest.mark.parametrize("room", ["zkbroker", "spark_loader"])
def test_files_and_classes_stay_small(room):
    for path in sorted((ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= MOST_LINES, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                assert len(methods) <= MOST_METHODS, f"{path}: {node.name}"


def test_class_names_stand_for_one_thing():
    names = Counter(
        node.name
        for room in ("zkbroker", "spark_loader")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == TWO_THINGS
