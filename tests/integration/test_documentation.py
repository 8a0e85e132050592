"""The README's and the manual's examples run as they stand, against a real cluster."""

import os
import re
import subprocess
import sys

import pytest

from tests.support.markdown import ROOT, examples, pages, write
from zkbroker.testing import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    properties = {
        "num.partitions": "2",
        "legacy07.listener": "127.0.0.1:0",
        "legacy07.log.dir": str(tmp_path_factory.mktemp("legacy07")),
    }
    with LocalCluster(brokers=1, properties=properties) as started:
        yield started


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("examples")


# A Spark example takes its time on a busy machine.
@pytest.mark.timeout(300)
# One after the other, in the order of the page: what one publishes the next one reads.
@pytest.mark.parametrize("example", examples(), ids=str)
def test_example_runs(example, cluster, directory):
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
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_readmes_commands_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^\$ make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
