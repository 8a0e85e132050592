"""The performance page shows all results."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import HERE, PAGE
from bench.figures import Comparison, Found, Growth

SCRIPT = Path(__file__).parents[3] / "scripts" / "performance_page.py"
FASTER = Comparison("produce", "MB/s", "Kafka", [30, 10, 20], [10, 10, 10])
SLOWER = Comparison("round trip", "ms", "Kafka", [3, 3, 3], [2, 2, 2], more_is_better=False)
OTHER = Comparison("fetch", "MB/s", "a bare loop", [1], [2])
LEVEL = Growth("produce", "µs", "partitions", [(1, 30.0), (1000, 33.0)])


def test_page_names_the_slower_figures(tmp_path):
    pytest.importorskip("matplotlib")
    Found("broker", [FASTER, SLOWER, OTHER], [LEVEL]).save(tmp_path)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--docs", str(tmp_path)]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    page = (tmp_path / "performance.md").read_text()
    assert "| produce | MB/s | 20 | 10 | 2.00 (1.00 to 3.00) | more |" in page
    assert "| round trip | ms | 3 | 2 | 1.50 (1.50 to 1.50) | less |" in page
    assert "1 of 2 figures are better than with Kafka; these are not: round trip (ms, 1.50" in page
    assert "no figure is better than with a bare loop: " in page
    assert "1.1 times the cost for 1,000 times as much" in page
    assert len(list((tmp_path / "images").glob("performance-broker*.svg"))) == 3


def test_every_section_of_the_page_has_a_benchmark():
    text = SCRIPT.read_text()
    for name, section in PAGE.items():
        assert f'    "{name}": (' in text
        assert (HERE / f"{section.module}.py").is_file()
