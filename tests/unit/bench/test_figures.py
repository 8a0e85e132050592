"""Results of benchmarks: ratios by round, and the files for the performance page."""

import os
import time

import pytest

from bench.figures import Comparison, Found, Growth, cpu_seconds, of_clients

FASTER = Comparison("produce", "MB/s", "Kafka 0.8.2.2", [30, 10, 20], [10, 10, 10])
LEVEL = Growth("produce", "µs", "partitions", [(1, 30.0), (1000, 33.0)])


def test_ratio_is_the_median_over_rounds():
    assert FASTER.ratios == [3, 1, 2]
    assert FASTER.ratio == 2
    assert "ratio 2.00 (1.00 to 3.00)" in FASTER.line()


@pytest.mark.parametrize("other", [[], [1.0]])
def test_both_sides_need_the_same_number_of_rounds(other):
    with pytest.raises(ValueError, match="produce: 2 rounds beside"):
        Comparison("produce", "MB/s", "Kafka", [1, 2], other)


def test_growth_is_the_last_cost_divided_by_the_first():
    assert LEVEL.factor == pytest.approx(1.1)
    assert "1: 30.0, 1,000: 33.0" in LEVEL.line()


def test_saved_results_are_loaded(tmp_path):
    found = Found("broker", [FASTER], [LEVEL])
    loaded = Found.load(found.save(tmp_path / "results"))
    assert loaded == found
    assert loaded.machine["cores"] == os.cpu_count()


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"name": 1, "comparisons": 2}'])
def test_invalid_result_file_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is not a result"):
        Found.load(path)


def test_cpu_seconds_measures_the_work_of_a_process():
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    assert cpu_seconds(os.getpid()) - before >= 0.015


def test_clients_are_compared_by_rate_and_cpu():
    runs = {"mine": [(2.0, 1.0), (2.0, 1.0)], "base": [(4.0, 0.5), (1.0, 2.0)]}
    rate, cpu = of_clients(1000, runs, ["base", "did not run"])
    assert (rate.work, rate.unit, rate.ratios) == ("mine", "messages/s", [2.0, 0.5])
    assert (cpu.unit, cpu.ours, cpu.ratios) == ("CPU µs a message", [1000.0, 1000.0], [2.0, 0.5])
    assert not cpu.more_is_better
    assert of_clients(1000, {"mine": runs["mine"]}, ["base"]) == []
