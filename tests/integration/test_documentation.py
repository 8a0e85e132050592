"""The README's and the manual's examples run as they stand, against a real cluster."""

import os
import re
import shutil
import subprocess
import sys

import click
import pytest

from spark_loader.cli import cli as load_cli
from tests.support.clusters import TestCluster
from tests.support.markdown import ROOT, examples, pages, write
from zkbroker.cli.main import cli


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    properties = {
        "num.partitions": "2",
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.log.dir": str(tmp_path_factory.mktemp("legacy07")),
    }
    # The 0.7 registry is in the root of ZooKeeper, not in the tree of the brokers.
    with TestCluster(brokers=1, properties=properties) as started:
        yield started


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def started():
    """Return the examples that were started already."""
    return set()


def run_example(example, cluster, directory):
    host, port = cluster.broker(1).address
    script = write(
        directory / f"{example.name}.py",
        example.code,
        {
            "127.0.0.1:2181": cluster.zookeeper,
            "127.0.0.1:9092": f"{host}:{port}",
            '"127.0.0.1", 9092': f'"{host}", {port}',
        },
    )
    ran = subprocess.run(
        [sys.executable, str(script)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


@pytest.mark.parametrize("example", examples(), ids=str)
def test_example_runs(example, cluster, directory, started):
    # An example may read messages of an earlier one, so those above it on its page run first.
    page = [each for each in examples() if each.page == example.page]
    for each in page[: page.index(example)]:
        if each not in started:
            started.add(each)
            run_example(each, cluster, directory)
    started.add(example)
    shown = run_example(example, cluster, directory)
    if example.name == "spark":
        # A load shows its progress.
        steps = ("starting Spark", "counting the messages", "planning", "loading: ", "publishing: ")
        places = [shown.find(each) for each in steps]
        assert places[0] == 0
        assert places == sorted(places)
    if example.name == "walk":
        # Four engines give the same answer.
        assert shown.splitlines()[-1].startswith("True ")


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_lint_skips_virtual_environment_of_page(page, tmp_path):
    (made,) = re.findall(r"python3 -m venv (\S+)", (ROOT / page).read_text(encoding="utf-8"))
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    module = tmp_path / made / "lib" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text("import os,sys\n", encoding="utf-8")
    for command in (["check"], ["format", "--check"]):
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "."],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_between_pages_resolve(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_files_and_programs_named_by_page_exist(page):
    text = page.read_text(encoding="utf-8")
    folders = "tests|examples|scripts|bench|docker|zkbroker|spark_loader"
    for name in re.findall(rf"(?<![\w/])(?:{folders})/[\w/.@-]*\w", text):
        assert (ROOT / name).exists(), name
    for module in re.findall(r"python -m ((?:bench|examples)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_and_options_named_by_page_exist(page):
    if page.name == "command-line.md":
        return  # generated from the commands
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    named = re.findall(r"^\$ (?:.* \| +)?(zkbroker(?:-load)? .*)$", text, re.MULTILINE)
    for words in [*named, *re.findall(r"`(zkbroker(?:-load)? [^`]*)`", text)]:
        name, *rest = words.split(" | ")[0].split("#")[0].split()
        command = {"zkbroker": cli, "zkbroker-load": load_cli}[name]
        context = click.Context(command)
        while isinstance(command, click.Group) and rest and rest[0][0].isalpha():
            command = command.get_command(context, rest.pop(0))
            assert command is not None, words
            context = click.Context(command, parent=context)
        if command is load_cli:
            command = load_cli.commands["load"]
        known = {"--help", "--version"}
        known.update(*(each.opts + each.secondary_opts for each in command.params))
        for word in rest:
            option = word.split("=")[0]
            if re.match(r"--?[a-zA-Z]", option):
                assert option in known or word[:2] in known, words


def test_make_targets_of_readme_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_alert_has_a_runbook():
    rules = (ROOT / "docker" / "prometheus" / "zkbroker-rules.yml").read_text("utf-8")
    page = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    sections = {
        "-".join(re.findall(r"\w+", title.lower()))
        for title in re.findall(r"^## (.+)", page, re.MULTILINE)
    }
    named = re.findall(r"runbook: docs/runbooks.md#(\S+)", rules)
    assert len(named) == rules.count("- alert: ")
    assert set(named) <= sections
