"""Every benchmark of the performance page runs to its end, and the page shows its results."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import PAGE
from bench.figures import Found
from tests.support import java_clients

ROOT = Path(__file__).parents[2]
OF_GENUINE = {"replicas", "start", "failover"}


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("name", PAGE)
def test_small_benchmark_run_makes_its_section_of_page(name: str, tmp_path: Path) -> None:
    if name in OF_GENUINE and java_clients.old_missing():
        pytest.skip(java_clients.REASON)
    run = [sys.executable, "-m", "bench", "all", "--small", "--only", name, "--results", tmp_path]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = Found.load(tmp_path / f"{name}.json")
    assert [*found.comparisons, *found.growths]
    page = [sys.executable, "scripts/performance_page.py", tmp_path, "--docs", tmp_path]
    subprocess.run(page, cwd=ROOT, check=True, timeout=120)
    text = (tmp_path / "performance.md").read_text()
    for each in found.comparisons:
        assert f"| {each.work} | {each.unit} |" in text
    for growth in found.growths:
        assert f"- {growth.work}: " in text
    assert text.count("\n## ") == 1
    assert all((tmp_path / image).is_file() for image in images(text))


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("acks_all --requests 5", "of 5 requests"),
        ("lake --rows 2000 --loads 2 --files 4", "rows"),
        ("legacy07 --rounds 1 --seconds 0.1", "0.7 view"),
        ("quotas --rounds 1 --requests 100", "its own"),
        ("records --rounds 1 --records 100", "records/s"),
        ("requests --rounds 1 --seconds 0.1 --only 16", "fetch 16 KiB, magic 0"),
    ],
)
def test_other_benchmarks_of_page_measure(command: str, message: str) -> None:
    run = [sys.executable, "-m", *f"bench.{command}".split()]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert message in done.stdout


def images(text: str) -> list[str]:
    return [part.partition(")")[0] for part in text.split("](")[1:]]
