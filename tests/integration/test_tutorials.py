"""The manual's tutorials: each command and program of their pages, on one cluster."""

import random
import shutil
import socket

import pytest

from tests.support.markdown import ROOT
from tests.support.tutorials import Terminal, Tutorial, commands_in_terminal
from zkbroker.zookeeper.embedded import free_port

pytestmark = [
    pytest.mark.skipif(shutil.which("pkill") is None, reason="pkill (procps) is not installed"),
]
FIRST = ROOT / "docs" / "tutorial-producers.md"
REST = ["tutorial-streams.md", "tutorial-simple-consumer.md", "tutorial-spark.md"]


def three_ports():
    """Return three free ports in a row, below those that servers and connections take."""
    while True:
        first = random.randrange(15_000, 20_000)
        try:
            for port in range(first, first + 3):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", port))
            return range(first, first + 3)
        except OSError:
            pass


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def places(directory):
    ports = {9092 + n: port for n, port in enumerate(three_ports())} | {2181: free_port()}
    return {
        **{str(shown): str(real) for shown, real in ports.items()},
        "tutorial/": f"{directory}/tutorial/",
        "--data tutorial": f"--data {directory}/tutorial",
    }


@pytest.fixture(scope="module")
def cluster(directory, places):
    (command,) = commands_in_terminal(FIRST, "cluster")
    there = command
    for shown, real in places.items():
        there = there.replace(shown, real)
    terminal = Terminal(there, directory, command)
    assert terminal.read(1).startswith("zkbroker ready ")
    running = {"cluster": terminal}
    yield running
    for each in reversed(running.values()):
        each.end()


def test_producer_tutorial(directory, places, cluster):
    Tutorial(FIRST, directory, places, cluster).follow()


@pytest.mark.parametrize("page", REST)
def test_tutorial(page, directory, places, cluster):
    Tutorial(FIRST, directory, places).save_programs()
    if page == "tutorial-spark.md":
        for name in ("pyspark", "deltalake", "duckdb", "pandas"):
            pytest.importorskip(name)
    Tutorial(ROOT / "docs" / page, directory, places, cluster).follow()
